// Which Q? — the explorer. The page holds what is shown for each reading, with a sum of products of
// sizes beside each number; here the sums are computed and the matrices drawn to scale.

import { element } from "./element.js"
import { fieldsOf, linked, linkTo, mark, result, textsOf } from "./form.js"
import { onPage } from "./page.js"
import { divisors, evaluate, format, layer, read, size } from "./sizes.js"

const powers = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => 2n ** BigInt(first + i))
const STOPS = {
  n: () => powers(0, 17),
  d_model: () => powers(4, 15),
  h: () => powers(0, 7),
  d_k: () => powers(0, 10),
  h_kv: ({ h }) => (h ? divisors(h) : []),
}
const MOST_BLOCKS = 16 // as in src/qkv_site/generated/tools.py

function begin(root) {
  const form = root.querySelector("form")
  const fields = fieldsOf(form)
  const status = root.querySelector("[role=status]")
  const output = root.querySelector("[data-output]")
  const drawings = Object.fromEntries([...output.children]
    .map((each) => each.content?.firstElementChild ?? each)
    .map((drawing) => [drawing.dataset.reading, drawing]))

  function show(note = "") {
    const reading = form.elements.reading.value
    const grouped = reading === "grouped"
    fields.h_kv.closest(".wq-field").hidden = !grouped
    const entered = textsOf(fields)
    const [sizes, refused] = result(() => sizesOf(entered, grouped))
    mark(fields, refused)
    slide(form, sizes ?? Object.fromEntries(Object.entries(entered).map(([name, text]) => [name, read(text)])))
    fields.d_k.placeholder = sizes?.d_k ?? ""
    root.classList.toggle("wq-refused", Boolean(refused))
    output.inert = Boolean(refused) // the last drawing stays, and is not taken for what was entered
    if (sizes) {
      fill(drawings[reading], sizes)
      output.replaceChildren(drawings[reading])
    }
    status.textContent = `${note}${refused ? refused.message : drawings[reading].firstElementChild.textContent}`
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", ({ target }) => {
    if (target.dataset.slides) fields[target.dataset.slides].value = target.stops[target.value]
    const reading = form.elements.reading.value
    const entered = textsOf(fields)
    linkTo({ reading, ...entered, h_kv: reading === "grouped" ? entered.h_kv : "" })
    show()
  })
  // What the page comes with is what it shows without a link's wishes: then only sliders are set.
  const note = follow(form, fields)
  if (location.search) show(note)
  else slide(form, sizesOf(textsOf(fields), false))
}

/** Take the state from the link, and the usual one for what cannot be; say so. */
function follow(form, fields) {
  const notes = []
  const choices = [...form.elements.reading]
  const known = choices.map(({ value }) => value)
  const reading = linked("reading")
  if (reading !== null && !known.includes(reading)) {
    notes.push(`The link asks for the reading “${reading}”; expected is one of ${known.join(", ")}. `)
  }
  const usual = choices.find(({ defaultChecked }) => defaultChecked)
  const chosen = choices.find(({ value }) => value === reading) ?? usual
  chosen.checked = true
  for (const [name, field] of Object.entries(fields)) {
    field.value = linked(name) ?? field.defaultValue
    const [, refused] = result(() => field.value && size(name, field.value))
    if (refused) {
      notes.push(`In the link, ${refused.message} `)
      field.value = field.defaultValue
    }
  }
  return notes.length ? `${notes.join("")}The usual value stands in its place. ` : ""
}

/** The sizes that texts say. */
function sizesOf(texts, grouped) {
  if (grouped) size("h_kv", texts.h_kv)
  return { n: size("n", texts.n), ...layer({ ...texts, h_kv: grouped ? texts.h_kv : "" }) }
}

/** Put every slider at the first stop that is no less than its size; some sizes may be missing. */
function slide(form, sizes) {
  for (const slider of form.querySelectorAll("[data-slides]")) {
    const number = sizes[slider.dataset.slides]
    slider.stops = STOPS[slider.dataset.slides](sizes)
    slider.max = slider.stops.length - 1
    const above = slider.stops.findIndex((stop) => stop >= number)
    slider.value = above < 0 ? slider.max : above
    slider.disabled = !slider.stops.length
    slider.setAttribute("aria-valuetext", number ? format(number) : "empty")
  }
}

/** Put the value of its sum into every number, and draw every matrix as long as its numbers say. */
function fill(drawing, sizes) {
  for (const number of drawing.querySelectorAll("[data-sum]")) {
    const { sum, to } = number.dataset
    const value = evaluate(sum, sizes)
    if (to) number.textContent = ratio(value, evaluate(to, sizes))
    else Object.assign(number, { value, innerHTML: format(value).replaceAll(",", ",<wbr>") })
  }
  const sides = drawing.querySelectorAll(".wq-rows, .wq-columns")
  const longest = Math.max(...[...sides].map(({ value }) => Number(value)))
  drawing.querySelector(".wq-steps").style.setProperty("--longest", longest)
  for (const matrix of drawing.querySelectorAll(".wq-matrix")) draw(matrix, sizes)
}

/** A quotient with three digits, marked where it has more. */
function ratio(a, b) {
  const digits = Number((Number(a) / Number(b)).toPrecision(3))
  const exact = a * 1000n === BigInt(Math.round(digits * 1000)) * b
  return `${exact ? "" : "≈ "}${digits.toLocaleString("en", { maximumSignificantDigits: 3 })} ×`
}

function draw(matrix, sizes) {
  const [columns, rows, blocks] = matrix.children
  const [down, across] = [rows, columns].map(({ dataset }) => heads(dataset.sum, sizes))
  matrix.classList.toggle("wq-many", evaluate(matrix.dataset.many, sizes) > 1n)
  blocks.classList.toggle("wq-stacked", down > 1)
  for (const [name, length] of Object.entries({ rows: rows.value, columns: columns.value, down, across })) {
    blocks.style.setProperty(`--${name}`, length)
  }
  blocks.replaceChildren(...Array.from({ length: down * across }, () => element("span", { className: "wq-block" })))
}

/** Into how many blocks a side is cut: one for each head that stands along it, if they can be seen. */
function heads(side, sizes) {
  const name = side.split(" ").find((factor) => factor === "h" || factor === "h_kv")
  return name && sizes[name] <= MOST_BLOCKS ? Number(sizes[name]) : 1
}

onPage("[data-wq-explorer]", begin)
