// Which Q? — the search: a dialog that lists, of each page that fits, the heading that answers.

import { element } from "./element.js"

const open = document.querySelector("[data-wq-search]")
const dialog = document.querySelector(".wq-search")
const [field, status, list] = ["input", "[role=status]", "ol"].map((part) => dialog.querySelector(part))
let loaded

/** What finds, and the index that it goes by: they are asked for when a reader turns to the search. */
export function load() {
  loaded ??= Promise.all([import("./find.js"), fetch(dialog.dataset.index)]).then(async ([finder, answer]) => {
    if (!answer.ok) throw new Error(answer.status)
    return { ...finder, index: finder.prepare(await answer.json()) }
  })
  return loaded
}

async function show() {
  const typed = field.value
  try {
    const { find, index } = await load()
    if (field.value !== typed) return // a later call shows what was typed since
    const { hits, nowhere, more } = find(index, typed)
    list.replaceChildren(...hits.map(hit))
    status.replaceChildren(said(typed.trim(), hits.length, nowhere, more))
    dialog.scrollTop = 0
  } catch {
    loaded = undefined
    status.replaceChildren("The search could not be loaded.")
  }
}

function said(typed, pages, nowhere, more) {
  if (!typed) return ""
  if (!pages) return `Nothing is found for “${typed}”.`
  const left = nowhere.length ? ` No page has ${nowhere.map((word) => `“${word}”`).join(" or ")}.` : ""
  const fit = more ? `These ${pages} pages fit best.` : `${pages} ${pages === 1 ? "page fits" : "pages fit"}.`
  return fit + left
}

const shown = (parts) => parts.map((part) => (part.found ? element("mark", {}, part.said) : part.said))

/** A hit as an item of a list. */
export function hit({ address, names: [name, page], excerpt }) {
  const href = new URL(address, new URL(dialog.dataset.base, location))
  const within = page ? [element("small", {}, ...shown(page))] : []
  return element("li", {}, element("a", { href }, ...shown(name)), ...within, element("p", {}, ...shown(excerpt)))
}

function begin(typed = "") {
  if (!dialog.open) dialog.showModal()
  field.value = typed || field.value
  field.select()
  show()
}

function move(event) {
  if (event.key === "Escape") { // in a field it would take away what was typed
    event.preventDefault()
    dialog.close()
  }
  const links = [field, ...list.querySelectorAll("a")]
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (!step) return
  event.preventDefault()
  const at = links.indexOf(document.activeElement)
  links[(at + step + links.length) % links.length].focus()
}

open.setAttribute("role", "button")
open.addEventListener("click", (event) => {
  event.preventDefault()
  begin()
})
open.addEventListener("keydown", (event) => {
  if (event.key !== " ") return
  event.preventDefault()
  begin()
})
for (const near of ["pointerenter", "focus"]) open.addEventListener(near, () => load().catch(() => {}), { once: true })
field.addEventListener("input", show)
dialog.addEventListener("keydown", move)
dialog.querySelector("button").addEventListener("click", () => dialog.close())
dialog.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault()
  list.querySelector("a")?.click()
})
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("a")) dialog.close() // beside it, or at a hit
})
document.addEventListener("keydown", (event) => {
  const writes = event.target.closest?.("input, textarea, select, [contenteditable]")
  const asks = (event.key === "/" && !writes) || (event.key === "k" && (event.ctrlKey || event.metaKey))
  if (!asks || dialog.open) return
  event.preventDefault()
  begin()
})

const linked = new URLSearchParams(location.search).get("q")
if (linked) begin(linked)
