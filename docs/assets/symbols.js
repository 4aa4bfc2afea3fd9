// Which Q? — a symbol that is pointed at points out its like, whatever letter stands for it.

let pointedOut = []

function pointOut(event) {
  for (const symbol of pointedOut) symbol.classList.remove("wq-same")
  const role = event.target.closest?.("[data-role]")?.dataset.role
  pointedOut = role ? [...document.querySelectorAll(`[data-role="${CSS.escape(role)}"]`)] : []
  for (const symbol of pointedOut) symbol.classList.add("wq-same")
}

document.addEventListener("pointerover", pointOut)
document.addEventListener("focusin", pointOut)
