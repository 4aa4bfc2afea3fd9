// Which Q? — a block of code has a button that copies it. Material's own buttons, and its tips for
// titles, take more than half the time that its script needs on a long page.

import { copied, element } from "./element.js"

function offer(code) {
  const said = element("span", { role: "status" })
  let timer
  const copy = async () => {
    clearTimeout(timer)
    said.textContent = (await copied(code.innerText)) ? "Copied" : "Not copied: the browser does not allow it"
    timer = setTimeout(() => (said.textContent = ""), 2000)
  }
  const button = element("button", { className: "md-code__button", type: "button", title: "Copy this block", onclick: copy })
  button.dataset.mdType = "copy"
  code.before(element("div", { className: "md-code__nav" }, said, button))
}

if (navigator.clipboard) document.querySelectorAll(".highlight:not(.language-text) > pre > code").forEach(offer)
