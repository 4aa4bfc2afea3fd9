// Which Q? — the box: what a reader has in hand is read, and a card says which Q it is; below it stand
// the headings that have its words. What reads and what finds is loaded when a box is first touched.

import { element } from "./element.js"
import { chosenNotation } from "./notation.js"

const WAIT = 400 // until a screen reader is told: it is not interrupted at each key
const ROWS = 6
const boxes = [...document.querySelectorAll("[data-wq-box]")]
const { index, reading, base } = boxes[0].dataset // the header's
const href = (address) => new URL(address, new URL(base, location))
let loaded

/** What finds and what reads, with their data. */
export function load() {
  const fetched = async (address) => {
    const answer = await fetch(address)
    if (!answer.ok) throw new Error(answer.status)
    return answer.json()
  }
  loaded ??= Promise.all([import("./find.js"), import("./read.js"), fetched(index), fetched(reading)])
    .then(([finder, reader, found, read]) => {
      reader.prepare(read)
      return { ...finder, ...reader, data: read, index: finder.prepare(found) }
    })
  return loaded
}

const shown = (parts) => parts.map((part) => (part.found ? element("mark", {}, part.said) : part.said))

/** A hit as an item of a list. */
export function hit({ address, names: [name, page], excerpt }) {
  const within = page ? [element("small", {}, ...shown(page))] : []
  return element("li", {}, element("a", { href: href(address) }, ...shown(name)), ...within, element("p", {}, ...shown(excerpt)))
}

function count(typed, pages, nowhere, more) {
  if (!pages) return `Nothing is found for “${typed}”.`
  const left = nowhere.length ? ` No page has ${nowhere.map((word) => `“${word}”`).join(" or ")}.` : ""
  return (more ? `These ${pages} pages fit best.` : `${pages} ${pages === 1 ? "page fits" : "pages fit"}.`) + left
}

const KINDS = { formula: "Formula", shape: "Shape", name: "Name of a weight", error: "Error message", question: "Question" }
const paragraphs = (name, said) => said.map((each) => element("p", { className: name }, each))

/** A reading as a card. What was typed is text and never HTML. */
function card(reading, data) {
  const { kind, title, texts = [], letters = {}, wrong = [], says, line } = reading
  const [address, page] = reading.address ?? data.pages[reading.page.split("#")[0]] ?? []
  const anchor = reading.page?.includes("#") ? `#${reading.page.split("#")[1]}` : ""
  const rows = Object.entries(letters).map(([letter, said]) => element("div", {}, element("dt", {}, letter), element("dd", {}, said)))
  return element("section", { className: "wq-card" },
    element("p", { className: "wq-card-kind" }, KINDS[kind]),
    element("p", { className: "wq-card-title" }, title),
    ...paragraphs("wq-card-wrong", wrong),
    ...paragraphs("", says),
    ...(rows.length ? [element("dl", {}, ...rows)] : []),
    ...(texts.length ? [element("p", {}, element("b", {}, "Letters of "), texts.join("; "), ".")] : []),
    ...(line ? [element("p", {}, element("b", {}, "In NumPy "), element("code", {}, line)), ...inLetters(reading, data)] : []),
    ...(page ? [element("p", {}, element("a", { href: href(address + anchor) }, page))] : []))
}

/** The same in the letters that the reader has chosen, where they are not those of the card. */
function inLetters({ write, texts }, { set, texts: known }) {
  const id = chosenNotation()
  const { where, columns, upright, index } = known[id]
  if (texts.includes(where)) return []
  const escaped = (said) => element("i", {}, said).innerHTML
  const letter = (role) => {
    const [, key, head, turned] = /^(.*?)(?:\[(\w)\])?(\.T)?$/.exec(role)
    const name = head ? `${key}[i]` : key
    const latex = set[id][name] ?? set.site[name]
    if (!latex) return escaped(role)
    const own = name in set[id] ? index : "i"
    const sign = head && head !== "i" ? latex.replace(`<mi>${own}</mi>`, `<mn>${head}</mn>`) : latex
    return Boolean(turned) === (columns && !upright.includes(name)) ? `<math>${sign}</math>` : `<math><msup><mrow>${sign}</mrow><mo>⊤</mo></msup></math>`
  }
  const over = (size, root) => ` / ${root ? "√" : ""}${set.site[size] ? `<math>${set[id][size] ?? set.site[size]}</math>` : escaped(size)}`
  const lines = write(columns, { role: letter, times: " ", equal: " = ", over, plain: escaped })
  return [element("p", {}, element("b", {}, `In the letters of ${where.split(",")[0]} `), element("span", { innerHTML: lines.join("; ") }))]
}

function begin(box) {
  const link = box.querySelector("a")
  const field = element("textarea", { rows: 1, name: "q", placeholder: link.textContent.trim(), maxLength: 20000, autocomplete: "off", spellcheck: false })
  field.setAttribute("aria-label", "A formula, code, a shape, a weight's name, an error or a question")
  field.setAttribute("autocapitalize", "off")
  const [status, told] = ["wq-box-count", "wq-unseen"].map((className) => element("p", { className, role: "status" }))
  const [cards, list] = [element("div", { className: "wq-cards" }), element("ol")]
  const shared = element("a", {}, "A link to this answer")
  const others = element("a", { href: link.href }, "index of questions")
  const panel = element("div", { className: "wq-found", hidden: true }, cards, status, list,
    element("p", { className: "wq-box-else" }, shared, ". Not there? Look through the ", others, "."), told)
  const button = element("button", { type: "button", className: "wq-box-open", ariaLabel: "Search" })
  button.append(link.querySelector("svg") ?? "")
  const form = element("form", {}, button, field)
  form.setAttribute("role", "search")
  link.replaceWith(form)
  box.append(panel)
  let telling

  async function answer() {
    const typed = field.value
    const text = typed.trim()
    field.rows = Math.min(ROWS, typed.split("\n").length)
    if (!text) return close()
    try {
      const { find, question, read, data, index: sections, Refused } = await load()
      if (field.value !== typed) return // a later call shows what was typed since
      let found = { readings: [], says: "" }
      try {
        found = read(text)
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        found.says = error.message
      }
      const asked = found.words ? question(sections, text) : []
      const all = [...found.readings, ...asked]
      cards.replaceChildren(...all.map((each) => card(each, data)), ...paragraphs("wq-box-says", found.says ? [found.says] : []))
      const { hits, nowhere, more } = find(sections, text.slice(0, 400))
      list.replaceChildren(...hits.map(hit))
      status.textContent = count(text.slice(0, 60), hits.length, nowhere, more)
      shared.href = href(`?q=${encodeURIComponent(text)}`)
      open()
      clearTimeout(telling)
      telling = setTimeout(() => (told.textContent = [...all.map(({ title, wrong = [] }) => [title, ...wrong].join(" ")), found.says].join(" ")), WAIT)
    } catch {
      loaded = undefined
      cards.replaceChildren("The search could not be loaded.")
      open()
    }
  }

  function open() {
    panel.hidden = false
    box.dataset.open = ""
  }

  function close() {
    panel.hidden = true
    delete box.dataset.open
  }

  function keys(event) {
    if (event.key === "Escape") {
      close()
      field.focus()
      if (box.dataset.wqBox !== "large") field.blur()
      return event.preventDefault()
    }
    const onField = document.activeElement === field
    if (event.key === "Enter" && !event.shiftKey && onField) {
      event.preventDefault()
      return panel.hidden ? answer() : (panel.querySelector(".wq-cards a") ?? list.querySelector("a"))?.click()
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!step || panel.hidden || (onField && field.value.includes("\n"))) return undefined
    event.preventDefault()
    const stops = [field, ...cards.querySelectorAll("a"), ...list.querySelectorAll("a")]
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus()
  }

  for (const near of ["pointerenter", "focusin"]) box.addEventListener(near, () => load().catch(() => {}), { once: true })
  field.addEventListener("input", answer)
  field.addEventListener("focus", () => field.value && answer())
  button.addEventListener("click", () => field.focus())
  box.addEventListener("keydown", keys)
  form.addEventListener("submit", (event) => event.preventDefault())
  panel.addEventListener("click", (event) => event.target.closest("a") && event.target.closest("a") !== shared && close())
  document.addEventListener("pointerdown", (event) => box.contains(event.target) || close())
  new MutationObserver(() => panel.hidden || answer()).observe(document.documentElement, { attributeFilter: ["data-notation"] })
  return (typed = "") => {
    field.value = typed || field.value
    field.focus()
    field.select()
    if (typed) answer()
  }
}

const ask = boxes.map(begin)
const largest = boxes.findIndex((box) => box.dataset.wqBox === "large" && box.checkVisibility?.())
document.addEventListener("keydown", (event) => {
  const writes = event.target.closest?.("input, textarea, select, [contenteditable]")
  const asks = (event.key === "/" && !writes) || (event.key === "k" && (event.ctrlKey || event.metaKey))
  if (!asks) return
  event.preventDefault()
  ask[0]()
})
document.addEventListener("click", (event) => { // an example on a page: it is put into the box there
  const example = event.target.closest?.("[data-wq-example]")
  if (!example || largest < 0) return
  event.preventDefault()
  ask[largest](example.textContent)
})

const linked = new URLSearchParams(location.search).get("q")
if (linked) ask[Math.max(0, largest)](linked)
