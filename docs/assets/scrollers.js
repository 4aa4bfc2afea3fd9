// Which Q? — what is too wide for the screen can be scrolled from the keyboard.

function makeFocusable() {
  const boxes = [...document.querySelectorAll(".math-display, .md-typeset__scrollwrap")]
  const wide = boxes.map((box) => box.scrollWidth > box.clientWidth) // all before the first change: a page is laid out once
  boxes.forEach((box, i) => (wide[i] ? (box.tabIndex = 0) : box.removeAttribute("tabindex")))
}

makeFocusable()
// Formulas in another notation have other widths, as soon as they are drawn.
document.addEventListener("change", () => requestAnimationFrame(makeFocusable))
// What is folded out may be wide, and so may be what a form shows.
for (const event of ["toggle", "input"]) document.addEventListener(event, () => requestAnimationFrame(makeFocusable), true)
// So has a screen that is turned.
window.addEventListener("resize", makeFocusable)
