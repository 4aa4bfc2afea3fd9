// Which Q? — the box: what a reader has in hand is read, and a card says which Q it is; below it stand
// the headings that have its words. What reads and what finds is loaded when a box is first touched.

import { element } from "./element.js"
import { chosenNotation } from "./notation.js"

const WAIT = 400 // until a screen reader is told: it is not interrupted at each key
const ROWS = 6
const boxes = [...document.querySelectorAll("[data-wq-box]")]
const { index, site, base } = boxes[0].dataset // the header's
const href = (address) => new URL(address, new URL(base, location))
const KEPT = "wq-typed" // for the page that a hit leads to
const FRAME = 20 // ms, in which a card is painted
let loading, sets = {}, titles = new Map() // of each page, when the index is there

const fetched = (address) => fetch(address).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))))

/** The letters of the site, and those of the text that is chosen. */
async function letters(id) {
  const asked = ["site", id].map((each) => (sets[each] ??= fetched(site.replace("site.json", `${each}.json`))))
  const [ours, chosen] = await Promise.all(asked)
  return { site: ours, [id]: chosen }
}

/** What reads: Python's own functions, what the build wrote with them, and its data. */
function reads({ reader, data }) {
  const its = reader(data.data, data.messages, data.tables)
  const read = (text) => {
    const [readings, says, , words] = its.answer(text)
    return { readings, says, words }
  }
  const lines = ({ trees }, columns, role, size) => trees.map((tree) => its.written(tree, columns, role, size, its.DATA.get("signs").get("letters")))
  return { read, isRefused: (error) => error instanceof its.RefusedError, data: { ...data, lines } }
}

/** What reads, and then what finds, which takes longer to make ready: a card does not wait for it. */
function begun() {
  if (loading) return loading
  const [finder, found] = [import("./find.js"), fetched(index)]
  letters(chosenNotation()).catch(() => (sets = {}))
  const reader = import("./reader.js").then(reads)
  found.then(({ pages }) => (titles = new Map(pages.map(({ url, title }) => [url, title])))).catch(() => {})
  const finds = Promise.all([finder, found, reader.then(() => new Promise((shown) => setTimeout(shown, FRAME)))]).then(([module, data]) => ({ ...module, index: module.prepare(data) }))
  loading = { reader, finds }
  finds.catch(() => (loading = undefined))
  return loading
}

/** What finds and what reads, with their data. */
export async function load() {
  const { reader, finds } = begun()
  return { ...(await reader), ...(await finds) }
}

const shown = (parts) => parts.map((part) => (part.found ? element("mark", {}, part.said) : part.said))

/** A hit as an item of a list. */
export function hit({ address, names: [name, page], excerpt }) {
  const within = page ? [element("small", {}, ...shown(page))] : []
  return element("li", {}, element("a", { href: href(address) }, ...shown(name)), ...within, element("p", {}, ...shown(excerpt)))
}

function count(typed, pages, nowhere, more) {
  if (!pages) return `Nothing is found for “${typed}”.`
  const left = nowhere.length ? ` Not found: ${nowhere.map((word) => `“${word}”`).join(" or ")}.` : ""
  return (more ? `These ${pages} pages fit best.` : `${pages} ${pages === 1 ? "page fits" : "pages fit"}.`) + left
}

const KINDS = { formula: "Formula", shape: "Shape", name: "Name of a weight", error: "Error message", question: "Question" }
// What is quoted may run from right to left: it turns nothing that stands round it. Names and sizes are code.
const isolated = (said) => said.split(/(“[^”]*”|(?:\([\w+·]+\)·)?\w[\w.·]*[_^][\w.·^{}]*[\w}])/).map((part, i) => (i % 2 ? element(part[0] === "“" ? "bdi" : "code", {}, part) : part))
const paragraphs = (name, said) => said.map((each) => element("p", { className: name }, ...isolated(each)))

/** What is long, behind a button where there is little room. */
function folded(title, parts) {
  if (!matchMedia("(max-width: 59.98rem)").matches || !parts.length) return parts
  const more = element("div", { hidden: true }, ...parts)
  const button = element("button", { type: "button", className: "wq-fold", ariaExpanded: "false" }, title)
  button.addEventListener("click", () => (button.ariaExpanded = String(!(more.hidden = !more.hidden))))
  return [button, more]
}

/** A reading as a card. What was typed is text and never HTML. */
function card(reading, data) {
  const { kind, title, texts = [], letters = [], wrong = [], says, line } = reading
  const [file, id] = reading.page?.split("#") ?? []
  const url = file?.replace(/(index)?\.md$/, (_, index) => (index ? "" : "/"))
  const [address, page] = reading.address ?? [url, titles.get(url) ?? "The page on it"]
  const there = href(address + (id ? `#${id}` : ""))
  const rows = [...letters].map(([letter, said]) => element("div", {}, element("dt", {}, letter), element("dd", {}, ...isolated(said))))
  return element("section", { className: "wq-card" },
    element("p", { className: "wq-card-kind" }, KINDS[kind]),
    ...paragraphs("wq-card-title", [title]),
    ...paragraphs("wq-card-wrong", wrong),
    ...paragraphs("", says),
    ...folded("More", [
      ...(rows.length ? [element("dl", {}, ...rows)] : []),
      ...(texts.length ? [element("p", {}, element("b", {}, "Fits the letters of "), texts.join("; "), ".")] : []),
      ...(line ? [element("p", {}, element("b", {}, `In NumPy${reading.tokens === "columns" ? ", with words as rows" : ""} `), element("code", {}, line)), ...inLetters(reading, data)] : []),
    ]),
    ...(there.href === location.origin + location.pathname ? [] : [element("p", {}, element("a", { href: there }, page))]))
}

/** The same in the letters that the reader has chosen, where they are not those of the card. */
function inLetters(reading, { set, tables, lines }) {
  const id = chosenNotation()
  const { where, columns, upright, index } = tables.texts[id]
  if (reading.texts.includes(where) || reading.line.includes("split(")) return []
  let all = true
  const letter = (role) => {
    const [, key, head, turned] = /^(.*?)(?:\[(\w)\])?(\.T)?$/.exec(role)
    const name = head ? `${key}[i]` : key
    const latex = set[id][name] ?? set.site[name]
    if (!latex) return (all = false), ""
    const own = name in set[id] ? index : "i"
    const sign = head && head !== "i" ? latex.replace(`<mi>${own}</mi>`, `<mn>${head}</mn>`) : latex
    return Boolean(turned) === (columns && !upright.includes(name)) ? `<math>${sign}</math>` : `<math><msup><mrow>${sign}</mrow><mo>⊤</mo></msup></math>`
  }
  const size = (said) => (set.site[said] ? `<math>${set[id][said] ?? set.site[said]}</math>` : element("i", {}, said).innerHTML)
  const said = lines(reading, columns, letter, size)
  return all ? [element("p", {}, element("b", {}, `In the letters of ${where.split(",")[0]} `), element("span", { innerHTML: said.join("; ") }))] : []
}

function begin(box) {
  const link = box.querySelector("a")
  const field = element("textarea", { rows: 1, name: "q", placeholder: link.textContent.trim(), maxLength: 20000, autocomplete: "off", autocapitalize: "off", spellcheck: false })
  field.ariaLabel = "A formula, code, a shape, a weight's name, an error or a question"
  const [status, told] = ["wq-box-count", "wq-unseen"].map((className) => element("p", { className, role: "status" }))
  const [cards, list] = [element("div", { className: "wq-cards" }), element("ol")]
  const shared = element("a", {}, "A link to this answer")
  const others = element("a", { href: link.href }, "index of questions")
  const panel = element("div", { className: "wq-found", hidden: true }, cards, status, list,
    element("p", { className: "wq-box-else" }, shared, ". Not there? Look through the ", others, "."), told)
  const button = element("button", { type: "button", className: "wq-box-open", ariaLabel: "Search" })
  button.append(link.querySelector("svg") ?? "")
  link.replaceWith(element("form", { role: "search" }, button, field))
  box.append(panel)
  const large = box.dataset.wqBox === "large", stands = box.querySelector(".wq-examples") // in the text, below the examples
  let telling, turn = 0, answered

  /** As many lines as what was typed fills. */
  function grow() {
    field.rows = 1
    const { lineHeight, paddingBlockStart, paddingBlockEnd } = getComputedStyle(field)
    const lines = (field.scrollHeight - parseFloat(paddingBlockStart) - parseFloat(paddingBlockEnd)) / parseFloat(lineHeight)
    field.rows = Math.max(1, Math.min(ROWS, Math.round(lines)))
    box.style.setProperty("--field", `${field.offsetHeight}px`)
  }

  /** Read and find what stands in the field; false if something else does by then. */
  async function answer() {
    const typed = field.value, mine = ++turn, late = () => mine !== turn
    const text = typed.trim()
    grow()
    if (!text) return close()
    try {
      const { reader, finds } = begun()
      const { read, isRefused, ...its } = await reader
      const data = { ...its.data, set: await letters(chosenNotation()) }
      if (late()) return false
      let found = { readings: [], says: "" }
      try {
        found = read(text)
      } catch (error) {
        if (!isRefused(error)) throw error
        found.says = error.message
      }
      const show = (all) => {
        const [first, ...others] = all.map((each) => card(each, data))
        cards.replaceChildren(...[first].filter(Boolean), ...folded("Other readings", others), ...paragraphs("wq-box-says", found.says ? [found.says] : []))
        panel.hidden = false
      }
      const named = titles.size
      if (found.readings.length || !found.words) show(found.readings)
      const { find, index: sections } = await finds
      if (late()) return false
      const { hits, nowhere, more, questions } = find(sections, text.slice(0, 400))
      const all = [...found.readings, ...(found.words ? questions : [])]
      if (found.words || !named) show(all)
      list.replaceChildren(...hits.map(hit))
      status.replaceChildren(...isolated(count(text.slice(0, 60), hits.length, nowhere, more)))
      shared.href = href(`?q=${encodeURIComponent(text)}`)
      answered = typed
      clearTimeout(telling)
      telling = setTimeout(() => (told.textContent = [...all.map(({ title, wrong = [] }) => [title, ...wrong].join(" ")), found.says].join(" ")), WAIT)
    } catch {
      if (late()) return false
      loading = undefined
      sets = {}
      cards.replaceChildren("The search could not be loaded.")
      panel.hidden = false
    }
    return true
  }

  /** Follow the card's link, or the first hit, of what stands in the field now. */
  async function follow() {
    if (panel.hidden || answered !== field.value) await answer()
    if (answered === field.value) panel.querySelector(cards.querySelector(".wq-card") ? ".wq-card:first-child a" : "li a")?.click()
  }

  function close() {
    turn++
    answered = undefined
    panel.hidden = true
  }

  function keys(event) {
    const onField = document.activeElement === field
    if (event.key === "Escape") { // it closes the list, and then leaves the box
      event.preventDefault()
      if (panel.hidden) return field.blur()
      field.focus()
      return close()
    }
    if (event.key === "Enter" && !event.shiftKey && onField) {
      event.preventDefault()
      return follow()
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!step || panel.hidden || (onField && field.value.includes("\n"))) return undefined
    event.preventDefault()
    const stops = [field, ...panel.querySelectorAll(".wq-cards :is(a, button), li a")].filter((each) => each.checkVisibility())
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus()
  }

  for (const near of ["pointerenter", "focusin"]) box.addEventListener(near, begun, { once: true })
  field.addEventListener("input", answer)
  field.addEventListener("focus", () => field.value && panel.hidden && answer())
  box.addEventListener("focusout", ({ relatedTarget }) => large || box.contains(relatedTarget) || (field.rows = 1))
  button.addEventListener("click", () => field.focus())
  box.addEventListener("keydown", keys)
  panel.addEventListener("click", (event) => {
    const link = event.target.closest("a")
    if (!link || link === shared) return
    history.replaceState({ ...history.state, [KEPT]: field.value }, "") // for the way back
    sessionStorage.setItem(KEPT, JSON.stringify([link.pathname, field.value]))
    close()
  })
  document.addEventListener("pointerdown", (event) => stands || box.contains(event.target) || close())
  new MutationObserver(() => panel.hidden || answer()).observe(document.documentElement, { attributeFilter: ["data-notation"] })
  return (typed = "", asks = true) => {
    field.value = typed || field.value
    if (!asks) return
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

// What was typed stands in the box again on the way back, and on the page that a hit led to.
const [led, kept] = JSON.parse(sessionStorage.getItem(KEPT)) ?? []
sessionStorage.removeItem(KEPT)
if (led === location.pathname && !history.state?.[KEPT]) history.replaceState({ ...history.state, [KEPT]: kept }, "")
for (const put of ask) put(history.state?.[KEPT], false)
const linked = new URLSearchParams(location.search).get("q")
if (linked) ask[Math.max(0, largest)](linked)
