// Which Q? — a block of code has a button that copies it. Material's own buttons, and its tips for
// titles, take more than half the time that its script needs on a long page.

import { element } from "./element.js"

/** Each block gets its button, where the browser lets a page copy. */
function offer() {
  for (const code of document.querySelectorAll(".highlight:not(.language-text) > pre > code")) {
    const button = element("button", { className: "md-code__button", type: "button", title: "Copy this block" })
    button.dataset.mdType = "copy"
    code.before(element("nav", { className: "md-code__nav" }, button))
  }
}

async function copy({ target }) {
  const button = target.closest?.(".md-code__button")
  if (!button) return
  const copied = navigator.clipboard.writeText(button.closest("pre").querySelector("code").innerText)
  button.title = await copied.then(() => "Copied", () => "Not copied: the browser does not allow it")
  button.parentElement.dataset.said = button.title
  setTimeout(() => delete button.parentElement.dataset.said, 2000)
}

if (navigator.clipboard) offer()
document.addEventListener("click", copy)
