// Which Q? — the explorer. The page holds what is shown for each version, with a sum of products of
// sizes beside each number; here the sums are computed and the matrices drawn to scale.

import { element } from "./element.js"
import { fieldsOf, linked, linkTo, mark, tellFaults, textsOf } from "./form.js"
import { chosenNotation } from "./notation.js"
import { divisors, evaluate, faultOf, format, read, sizesOf } from "./sizes.js"

const powers = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => 2n ** BigInt(first + i))
const STOPS = {
  n: () => powers(0, 17),
  d_model: () => powers(4, 15),
  h: () => powers(0, 7),
  d_k: () => powers(0, 10),
  h_kv: ({ h }) => (h ? divisors(h) : []),
}
const explorer = document.querySelector("[data-wq-explorer]")

function begin(root) {
  const form = root.querySelector("form")
  const { merged } = form.elements
  const fields = fieldsOf(form)
  const status = root.querySelector(".wq-shown > [role=status]")
  const here = root.querySelector("[data-here]") // the same beside the choice, for a small screen
  const output = root.querySelector("[data-output]")
  const drawings = Object.fromEntries([...output.children]
    .map((each) => each.content?.firstElementChild ?? each)
    .map((drawing) => [drawing.dataset.version, drawing]))

  function show({ note = "", changed = "" } = {}) {
    const chosen = form.elements.version.value
    const grouped = chosen === "grouped"
    fields.h_kv.closest(".wq-field").hidden = !grouped
    merged.closest("label").hidden = chosen !== "two-step"
    const entered = textsOf(fields)
    const [sizes, wrong] = sizesOf(used(entered, grouped), changed)
    const refused = wrong.length > 0
    mark(fields, wrong)
    slide(form, sizes ?? Object.fromEntries(Object.entries(entered).map(([name, text]) => [name, read(text)])))
    fields.d_k.placeholder = sizes ? `= ${sizes.d_k}` : "?" // no width is known while sizes are wrong
    root.classList.toggle("wq-refused", refused)
    root.classList.toggle("wq-noted", Boolean(note))
    output.inert = refused // the last drawing stays, and is not taken for what was entered
    const drawing = drawings[chosen === "two-step" && merged.checked ? "two-step-merged" : chosen]
    if (sizes) {
      fill(drawing, sizes, drawings)
      output.replaceChildren(drawing)
    }
    const said = drawing.firstElementChild.textContent
    if (refused) tellFaults(status, wrong, `${note}The numbers below are for what was entered before.`)
    else status.textContent = `${note}${said}`
    here.textContent = said
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  root.addEventListener("input", ({ target }) => {
    const { slides } = target.dataset
    if (slides) fields[slides].value = target.stops[target.value]
    const version = form.elements.version.value
    const entered = textsOf(fields)
    linkTo({
      version,
      merged: version === "two-step" && merged.checked ? "yes" : "",
      ...entered,
      h_kv: version === "grouped" ? entered.h_kv : "",
    })
    show({ changed: slides ?? target.dataset.size })
  })
  // Letters follow the notation by themselves; on which side a matrix stands does here.
  new MutationObserver(() => show())
    .observe(document.documentElement, { attributeFilter: ["data-notation"] })
  // What the page comes with is what it shows without a link's wishes: then only sliders are set.
  const note = follow(form, fields)
  if (location.search || chosenNotation() !== "site") show({ note })
  else slide(form, sizesOf(used(textsOf(fields)))[0])
}

/** What a version needs of the texts: only where heads share keys, how many there are of these. */
const used = ({ h_kv, ...texts }, grouped) => (grouped ? { ...texts, h_kv } : texts)

/** Take the state from the link, and the usual one for what cannot be; say so. */
function follow(form, fields) {
  const notes = []
  const choices = [...form.elements.version]
  const known = choices.map(({ value }) => value)
  const version = linked("version")
  if (version !== null && !known.includes(version)) {
    notes.push(`The link asks for the version “${version}”; expected is one of ${known.join(", ")}. `)
  }
  const usual = choices.find(({ defaultChecked }) => defaultChecked)
  const chosen = choices.find(({ value }) => value === version) ?? usual
  chosen.checked = true
  form.elements.merged.checked = linked("merged") === "yes"
  for (const [name, field] of Object.entries(fields)) {
    field.value = linked(name) ?? field.defaultValue
    const fault = field.value && faultOf(name, field.value)
    if (fault) {
      notes.push(`In the link, ${fault} `)
      field.value = field.defaultValue
    }
  }
  return notes.length ? `${notes.join("")}The usual value stands in its place. ` : ""
}

/** Put every slider at the first stop that is no less than its size; where that is missing, it stays. */
function slide(form, sizes) {
  for (const slider of form.querySelectorAll("[data-slides]")) {
    const number = sizes[slider.dataset.slides]
    slider.stops = STOPS[slider.dataset.slides](sizes)
    slider.max = slider.stops.length - 1
    slider.disabled = !slider.stops.length
    if (!number) continue
    const above = slider.stops.findIndex((stop) => stop >= number)
    slider.value = above < 0 ? slider.max : above
    slider.setAttribute("aria-valuetext", format(number))
  }
}

/** Put the value of its sum into every number, and draw every matrix as long as its numbers say. */
function fill(drawing, sizes, drawings) {
  for (const drawn of drawing.querySelectorAll(".wq-drawn")) turn(drawn)
  for (const number of drawing.querySelectorAll("[data-sum]")) {
    const { sum, to } = number.dataset
    const value = evaluate(sum, sizes)
    if (to) number.textContent = ratio(value, evaluate(to, sizes))
    else Object.assign(number, { value, innerHTML: breakable(format(value)) })
  }
  const count = (of, name) =>
    Number(evaluate(of.querySelector(`[data-count=${name}] data`).dataset.sum, sizes))
  for (const card of drawing.querySelectorAll("[data-count]")) {
    const name = card.dataset.count
    const most = Math.max(...Object.values(drawings).map((each) => count(each, name)))
    const bar = card.querySelector(".wq-bar > span")
    bar.style.setProperty("--here", count(drawing, name) / most)
    bar.style.setProperty("--paper", count(drawings.paper, name) / most)
  }
  const sides = drawing.querySelectorAll(".wq-rows, .wq-columns")
  const longest = Math.max(...[...sides].map(({ value }) => Number(value)))
  drawing.querySelector(".wq-steps").style.setProperty("--longest", longest)
  for (const matrix of drawing.querySelectorAll(".wq-matrix")) draw(matrix, sizes)
}

/** A number that is too long for a line of a phone may be broken. */
const breakable = (number) => (number.length > 15 ? number.replaceAll(",", ",<wbr>") : number)

/** Where tokens are columns, factors stand the other way round, and each is its transpose. */
function turn(drawn) {
  const turned = drawn.dataset.turned.split(" ").includes(chosenNotation())
  if (turned === drawn.classList.contains("wq-turned")) return
  drawn.classList.toggle("wq-turned", turned)
  const matrices = [...drawn.querySelectorAll(".wq-matrix")]
  const factors = matrices.slice(0, -1)
  const places = factors.map((matrix) => [matrix.parentElement, matrix.nextSibling])
  places.forEach(([parent, next], i) => parent.insertBefore(factors.at(-1 - i), next))
  for (const matrix of matrices) {
    const [columns, rows] = matrix.children
    ;[columns.dataset.sum, rows.dataset.sum] = [rows.dataset.sum, columns.dataset.sum]
  }
}

/** A quotient with three digits, marked where it has more. */
function ratio(a, b) {
  const digits = Number((Number(a) / Number(b)).toPrecision(3))
  const exact = a * 1000n === BigInt(Math.round(digits * 1000)) * b
  return `${exact ? "" : "≈\u00a0"}${digits.toLocaleString("en", { maximumSignificantDigits: 3 })}\u00a0×`
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
  return name && sizes[name] <= Number(explorer.dataset.mostBlocks) ? Number(sizes[name]) : 1
}

begin(explorer)
