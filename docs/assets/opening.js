// Which Q? — what a panel needs is asked for when a reader opens it, so that a page is light until then.

async function begin(panel) {
  if (!panel.open || panel.dataset.begun) return
  panel.dataset.begun = ""
  const { fill } = await import("./change-it.js")
  fill(panel)
}

document.addEventListener("toggle", ({ target }) => target.matches("[data-wq-change]") && begin(target), true)
document.querySelectorAll("[data-wq-change]").forEach(begin) // one that was opened before this came
