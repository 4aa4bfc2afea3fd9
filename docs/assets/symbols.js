// Which Q? — a symbol that is pointed at points out its like, whatever letter stands for it, and a
// label says what it is, as it does for a word of the glossary. An entry of a legend says so itself.

import { element } from "./element.js"
import { chosenNotation } from "./notation.js"

const label = element("div", { className: "wq-label", role: "tooltip", hidden: true })
document.body.append(label)

let roles // asked for when they are first needed
let pointedAt = null
let pointedOut = []

function pointOut(symbol) {
  if (symbol === pointedAt) return
  pointedAt = symbol
  label.hidden = true
  for (const each of pointedOut) each.classList.remove("wq-same")
  const role = symbol?.dataset.role
  pointedOut = role ? [...document.querySelectorAll(`[data-role="${CSS.escape(role)}"]`)] : []
  for (const each of pointedOut) each.classList.add("wq-same")
  if (symbol?.localName === "abbr") explain(symbol)
  else if (symbol && symbol.closest("li[data-role]")?.dataset.role !== role) name(symbol)
}

/** A word says what it means; where no script runs, the browser shows its title. */
function explain(word) {
  word.ariaDescription ??= word.title
  word.removeAttribute("title")
  label.textContent = word.ariaDescription
  label.hidden = false
  place(word.getClientRects()[0], word.getClientRects()[0])
}

async function name(symbol) {
  roles ??= fetch(new URL("roles.json", import.meta.url)).then((answer) => answer.json())
  const { meaning, group, shapes } = (await roles)[symbol.dataset.role]
  if (symbol !== pointedAt) return
  const source = symbol.closest("[data-of]")?.dataset.of ?? chosenNotation()
  const [shape] = shapes.find(([, sources]) => sources.split(" ").includes(source)) ?? [""]
  const borrowed = symbol.closest(".wq-borrowed") ? " (this site's letter)" : ""
  label.innerHTML = `${group === "size" ? "" : `<i class="wq-swatch role-${group}"></i>`}${meaning}${shape && ", "}${shape}${borrowed}`
  label.hidden = false
  const line = symbol.closest("h1, math, .wq-matrix") ?? symbol
  place((symbol.closest(".wq-matrix") ?? symbol).getBoundingClientRect(), line.getBoundingClientRect())
}

/** Put the label above the symbol and what stands beside it, or below where the header would cover it. */
function place(box, line) {
  const { offsetWidth: width, offsetHeight: height } = label
  const apart = parseInt(getComputedStyle(label).getPropertyValue("--apart"))
  const top = document.querySelector(".md-header").getBoundingClientRect().bottom
  const above = line.top - apart - height
  const middle = (box.left + box.right - width) / 2
  const rightmost = document.documentElement.clientWidth - width - apart
  const { left } = document.querySelector("article").getBoundingClientRect() // not over the list of pages
  label.style.left = `${scrollX + Math.min(rightmost, Math.max(left, middle))}px`
  label.style.top = `${scrollY + (above < top ? line.bottom + apart : above)}px`
}

function follow({ target }) {
  if (!label.contains(target)) pointOut(target.closest?.("[data-role], abbr") ?? null)
}

// A block of the map is a link, too: a finger, which cannot point, is told at the first touch, and led on at the second.
let touched = null
function tellFirst(event) {
  const block = event.pointerType === "touch" && event.target.closest?.(".wq-map a[data-role]")
  if (block && block !== touched) event.preventDefault()
  touched = block || null
}

document.addEventListener("pointerover", follow)
document.addEventListener("click", tellFirst)
document.addEventListener("focusin", follow)
document.addEventListener("change", () => pointOut(null))
document.addEventListener("keydown", ({ key }) => key === "Escape" && pointOut(null))
// A formula that is scrolled sideways leaves its label behind.
document.addEventListener("scroll", ({ target }) => {
  if (target !== document && target.contains(pointedAt)) pointOut(null)
}, true)
