// Which Q? — what a panel needs is asked for when a reader opens it, so that a page is light until then.

import { element } from "./element.js"

async function begin(panel) {
  if (!panel.open || panel.dataset.begun || matchMedia("print").matches) return // the theme opens all for paper
  panel.dataset.begun = "yes"
  panel.querySelector(":scope > .wq-unloaded")?.remove()
  try {
    const { fill } = await import("./change-it.js")
    await fill(panel)
  } catch (fault) {
    delete panel.dataset.begun // a reader who was offline may open it again
    const said = `This part could not be loaded: ${fault.message}. To try again, close and open it, or reload the page.`
    panel.append(element("p", { className: "wq-unloaded" }, said))
    throw fault
  }
}

document.addEventListener("toggle", ({ target }) => target.matches("[data-wq-change]") && begin(target), true)
document.querySelectorAll("[data-wq-change]").forEach(begin) // one that was opened before this came

// A row that an address leads to is unfolded: its heading stands above what it opens to.
function unfold() {
  const named = document.getElementById(location.hash.slice(1))
  if (!named?.closest(".wq-rows")) return
  let fold = named.closest("details") ?? named.nextElementSibling
  while (fold && !/^(details|h3)$/.test(fold.localName)) fold = fold.nextElementSibling
  if (fold?.localName === "details") fold.open = true
}

addEventListener("hashchange", unfold)
unfold()
