// Which Q? — the explorer. Every number comes from assets/explorer.json, which the build exports
// from qkv.costs; here products of sizes are only added, drawn and written.

import { divisors, evaluate, format, layer, linkTo, mark, onPage, read, Refused, size } from "./sizes.js"

const DEFAULTS = { reading: "paper", n: "100", d_model: "512", h: "8", d_k: "", h_kv: "2" }
const MEANINGS = {
  n: "tokens",
  d_model: "width of the source",
  h: "heads",
  d_k: "width of one head, of its values too",
  h_kv: "heads of keys and values",
}
const powers = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => 2n ** BigInt(first + i))
const STOPS = {
  n: () => powers(0, 17),
  d_model: () => powers(4, 15),
  h: () => powers(0, 7),
  d_k: () => powers(0, 10),
  h_kv: ({ h }) => (h ? divisors(h) : []),
}

// In pixels, as in the stylesheet: the shortest side that can be seen, the tallest matrix, a sign
// between two matrices, and the room that sheets behind a matrix need.
const THINNEST = 3
const TALLEST = 190
const SIGN = 20
const SHEETS = 16

function controls(data) {
  const readings = Object.entries(data.readings).map(([id, { name }]) => `
    <label><input type="radio" name="reading" value="${id}"> ${name}</label>`)
  const sizes = Object.entries(MEANINGS).map(([name, meaning]) => `
    <div class="wq-field">
      <label for="wq-${name}">${data.sizes[name]} <span>${meaning}</span></label>
      <input id="wq-${name}" data-size="${name}" inputmode="numeric" autocomplete="off" aria-describedby="wq-${name}-fault">
      <input type="range" data-slides="${name}" min="0" aria-label="${name}, ${meaning}: slider">
      <p class="wq-fault" id="wq-${name}-fault"></p>
    </div>`)
  return `
    <form class="wq-controls">
      <fieldset class="wq-readings"><legend>Reading</legend>${readings.join("")}</fieldset>
      <div class="wq-fields">${sizes.join("")}</div>
    </form>
    <p role="status"></p>
    <div data-output></div>`
}

function begin(root, data) {
  root.innerHTML = controls(data)
  const form = root.querySelector("form")
  const status = root.querySelector("[role=status]")
  const output = root.querySelector("[data-output]")
  let steps = []
  const field = (name) => form.querySelector(`[data-size=${name}]`)
  const texts = () => Object.fromEntries(Object.keys(MEANINGS).map((name) => [name, field(name).value.trim()]))

  function show(note = "") {
    const reading = form.elements.reading.value
    const grouped = reading === "grouped"
    const entered = texts()
    field("h_kv").closest(".wq-field").hidden = !grouped
    field("d_k").placeholder = ""
    let refused, sizes
    try {
      if (grouped) size("h_kv", entered.h_kv)
      const shared = grouped ? entered.h_kv : ""
      sizes = { n: size("n", entered.n), ...layer({ ...entered, h_kv: shared }) }
      field("d_k").placeholder = sizes.d_k
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      refused = error
    }
    slide(form, sizes ?? Object.fromEntries(Object.entries(entered).map(([name, text]) => [name, read(text)])))
    mark(form, refused)
    root.classList.toggle("wq-refused", Boolean(refused))
    status.textContent = `${note}${refused ? refused.message : summary(data, reading, sizes)}`
    steps = refused ? [] : data.readings[reading].steps.map((step) => measured(step, sizes))
    output.innerHTML = refused ? "" : results(data, reading, sizes, steps)
    scale(output, steps)
  }

  function changed() {
    const { h_kv, ...always } = texts()
    const reading = form.elements.reading.value
    linkTo({ reading, ...always, h_kv: reading === "grouped" ? h_kv : "" })
    show()
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", ({ target }) => {
    if (target.dataset.slides) field(target.dataset.slides).value = target.stops[target.value]
    changed()
  })

  show(fill(form, data))
  new ResizeObserver(() => scale(output, steps)).observe(form)
  document.fonts.ready.then(() => scale(output, steps))
}

/** Take the state from the link, and the default for what cannot be; say so. */
function fill(form, data) {
  const wanted = new URLSearchParams(location.search)
  const notes = []
  let reading = wanted.get("reading") ?? DEFAULTS.reading
  if (!Object.hasOwn(data.readings, reading)) {
    notes.push(`The link asks for the reading “${reading}”; expected is one of ${Object.keys(data.readings).join(", ")}. `)
    reading = DEFAULTS.reading
  }
  form.elements.reading.value = reading
  for (const input of form.querySelectorAll("[data-size]")) {
    const name = input.dataset.size
    input.value = wanted.get(name) ?? DEFAULTS[name]
    try {
      if (input.value) size(name, input.value)
    } catch (refused) {
      notes.push(`In the link, ${refused.message} `)
      input.value = DEFAULTS[name]
    }
  }
  return notes.length ? `${notes.join("")}The usual value stands in its place. ` : ""
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

/** A count, and how many times that of the paper it is. */
function counted(data, name, reading, sizes) {
  const [here, paper] = [reading, "paper"].map((id) => evaluate(data.readings[id].counts[name].terms, sizes))
  return { here, paper, ratio: ratio(here, paper) }
}

/** A quotient with three digits, marked where it has more. */
function ratio(a, b) {
  const digits = Number((Number(a) / Number(b)).toPrecision(3))
  const exact = a * 1000n === BigInt(Math.round(digits * 1000)) * b
  return `${exact ? "" : "≈ "}${digits.toLocaleString("en", { maximumSignificantDigits: 3 })} ×`
}

function summary(data, reading, sizes) {
  const counts = ["parameters", "multiply_adds", "cached_per_token"].map((name) => {
    const { here, ratio } = counted(data, name, reading, sizes)
    return `${format(here)} ${data.counts[name]}${reading === "paper" ? "" : ` (${ratio})`}`
  })
  return `${data.readings[reading].name.split(":")[0]}: ${counts.join(", ")}.`
}

function results(data, reading, sizes, steps) {
  const cards = Object.entries(data.counts).map(([name, meaning]) => {
    const { here, paper, ratio } = counted(data, name, reading, sizes)
    return `
      <div data-count="${name}">
        <dt>${meaning}</dt>
        <dd class="wq-number"><data value="${here}">${format(here).replaceAll(",", ",<wbr>")}</data></dd>
        ${reading === "paper" ? "" : `<dd><b>${ratio}</b> the paper’s <data value="${paper}">${format(paper)}</data></dd>`}
        <dd class="wq-sum">${data.readings[reading].counts[name].formula}</dd>
      </div>`
  })
  return `
    <dl class="wq-counts">${cards.join("")}</dl>
    <ol class="wq-steps">${steps.map(drawn).join("")}</ol>
    <p class="wq-scale">A side that would be shorter than ${THINNEST} pixels is drawn ${THINNEST} pixels long.</p>`
}

/** One product with numbers in the place of sums. */
function measured({ formula, matrices, ...counts }, sizes) {
  return {
    formula,
    ...Object.fromEntries(Object.entries(counts).map(([name, terms]) => [name, evaluate(terms, sizes)])),
    matrices: matrices.map((matrix) => ({
      ...matrix,
      count: evaluate(matrix.count, sizes),
      rows: side(matrix.rows, sizes),
      columns: side(matrix.columns, sizes),
    })),
  }
}

/** One side of a matrix: how long it is, and how many heads stand along it. */
function side(terms, sizes) {
  const length = evaluate(terms, sizes)
  const heads = terms[0].find((name) => name === "h" || name === "h_kv")
  return { length, heads: heads ? Number(sizes[heads]) : 1 }
}

function drawn({ formula, count, parameters, multiply_adds, matrices }) {
  const boxes = matrices.map(({ group, count }) =>
    `<span class="wq-box role-${group}${count > 1n ? " wq-many" : ""}" aria-hidden="true"></span>`)
  const captions = matrices.map(({ symbol, shape, rows, columns }) => `
    <div class="wq-caption">
      <span>${symbol}</span>
      <span data-shape>${format(rows.length)} × ${format(columns.length)}</span>
      <span>${shape}</span>
    </div>`)
  const numbers = [
    `<span data-step="count">${format(count)}</span> ${count > 1n ? "products" : "product"}`,
    ...(parameters ? [`<span data-step="parameters">${format(parameters)}</span> parameters`] : []),
    `<span data-step="multiply_adds">${format(multiply_adds)}</span> multiply-adds`,
  ]
  const sign = (text) => `<span class="wq-sign" aria-hidden="true">${text}</span>`
  return `
    <li>
      <p class="wq-step">${formula} <span>${numbers.join(" · ")}</span></p>
      <div class="wq-product">
        ${boxes[0]}${sign("×")}${boxes[1]}${sign("=")}${boxes[2]}
        ${captions.join(sign(""))}
      </div>
    </li>`
}

/** Draw the rectangles, all to one scale: as large as lets each product fit beside its captions. */
function scale(output, steps) {
  const products = [...output.querySelectorAll(".wq-product")].map((element, i) => {
    const boxes = element.querySelectorAll(".wq-box")
    const captions = element.querySelectorAll(".wq-caption")
    return {
      room: element.clientWidth - 2 * SIGN,
      matrices: steps[i].matrices.map(({ rows, columns, count }, j) => ({
        box: boxes[j],
        caption: Math.ceil(captions[j].getBoundingClientRect().width),
        sheets: count > 1n ? SHEETS : 0,
        rows: { ...rows, length: Number(rows.length) },
        columns: { ...columns, length: Number(columns.length) },
      })),
    }
  })
  if (!products.length) return
  const matrices = products.flatMap((product) => product.matrices)
  const unit = largest(TALLEST / Math.max(...matrices.map(({ rows }) => rows.length)), (unit) =>
    products.every((product) => width(product, unit) <= Math.max(product.room, width(product, 0))))
  for (const { box, rows, columns } of matrices) {
    const [height, width] = [rows, columns].map(({ length }) => Math.max(length * unit, THINNEST))
    box.style.width = `${width}px`
    box.style.height = `${height}px`
    box.style.setProperty("--across", cuts(columns, width))
    box.style.setProperty("--down", cuts(rows, height))
  }
  output.querySelector(".wq-scale").hidden =
    matrices.every(({ rows, columns }) => Math.min(rows.length, columns.length) * unit >= THINNEST)
}

/** Into how many heads a side is seen to be cut: all, or none where their lines would run together. */
const cuts = ({ heads }, pixels) => (pixels / heads >= 4 ? heads : 1)

const width = ({ matrices }, unit) => matrices.reduce(
  (sum, { caption, sheets, columns }) => sum + Math.max(caption, columns.length * unit + sheets), 0)

/** The largest number up to `most` for which it holds, if it holds for every smaller one. */
function largest(most, holds) {
  if (holds(most)) return most
  let [low, high] = [0, most]
  for (let halvings = 0; halvings < 40; halvings++) {
    const middle = (low + high) / 2
    if (holds(middle)) low = middle
    else high = middle
  }
  return low
}

onPage("[data-wq-explorer]", "explorer.json", begin)
