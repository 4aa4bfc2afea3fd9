// Which Q? — what an array may be, told from its shape. The rules are those of qkv.which, which the
// build exports to assets/which-shape.json; here they are only gone through.

import { evaluate, layer, linkTo, mark, onPage, read, refuse, Refused } from "./sizes.js"

const DEFAULTS = { shape: "512, 512", d_model: "512", h: "8", d_k: "", h_kv: "" }
const FIELDS = {
  d_model: "width of the source",
  h: "number of heads",
  d_k: "width of one head; d_model / h if empty",
  h_kv: "heads of keys and values; h if empty",
}

const FORM = `
  <form class="wq-controls">
    <div class="wq-fields">
      <div class="wq-field">
        <label for="wq-shape">Shapes <span>one on each line, as in 512, 64 or torch.Size([8, 512, 64])</span></label>
        <textarea id="wq-shape" data-size="shape" rows="3" autocomplete="off" spellcheck="false" aria-describedby="wq-shape-fault"></textarea>
        <p class="wq-fault" id="wq-shape-fault"></p>
      </div>
      ${Object.entries(FIELDS).map(([name, meaning]) => `
      <div class="wq-field">
        <label for="wq-${name}"><code>${name}</code> <span>${meaning}</span></label>
        <input id="wq-${name}" data-size="${name}" inputmode="numeric" autocomplete="off" aria-describedby="wq-${name}-fault">
        <p class="wq-fault" id="wq-${name}-fault"></p>
      </div>`).join("")}
    </div>
  </form>
  <p role="status"></p>
  <div data-output></div>`

function begin(root, data) {
  root.innerHTML = FORM
  const form = root.querySelector("form")
  const status = root.querySelector("[role=status]")
  const output = root.querySelector("[data-output]")
  const fields = [...form.querySelectorAll("[data-size]")]
  const wanted = new URLSearchParams(location.search)
  for (const field of fields) field.value = (wanted.get(field.dataset.size) ?? DEFAULTS[field.dataset.size]).replaceAll(";", "\n")

  function show() {
    const texts = Object.fromEntries(fields.map(({ dataset, value }) => [dataset.size, value.trim()]))
    output.replaceChildren()
    let refused
    try {
      const shapes = readShapes(texts.shape)
      const sizes = layer(texts)
      for (const field of fields) if (sizes[field.dataset.size]) field.placeholder = sizes[field.dataset.size]
      const answers = shapes.map((shape) => ({ shape, readings: which(shape, sizes, data) }))
      status.textContent = answers.map(({ shape, readings }) => `${tuple(shape)}: ${many(readings.length)}.`).join(" ")
      output.append(...answers.map((answer) => drawn(answer, sizes, data)))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      refused = error
      status.textContent = error.message
    }
    mark(form, refused)
    root.classList.toggle("wq-refused", Boolean(refused))
    return texts
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", () => {
    const { shape, ...sizes } = show()
    linkTo({ shape: shape.replaceAll("\n", ";"), ...sizes })
  })
  show()
}

/** The shapes that a text says, one on each line, in the brackets of any library. */
function readShapes(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean)
  if (!lines.length) refuse("shape", "No shape is entered: sizes are expected, as in 512, 64.")
  return lines.map(readShape)
}

function readShape(line) {
  const sizes = line.replace(/^(torch\.Size|TensorShape)?[\s([]*/, "").replace(/[\s,)\]]*$/, "")
  if (!/^\d+(\s*[,×x*]\s*\d+|\s+\d+)*$/.test(sizes)) {
    refuse("shape", `The shape is “${line}”: whole numbers with commas between are expected, as in 512, 64.`)
  }
  return sizes.split(/\D+/).map((text, axis) =>
    read(text) ?? refuse("shape", `In “${line}”, axis ${axis} is ${text}: a size from 1 to 999,999,999 is expected.`))
}

/** What qkv.which returns. */
function which(shape, layerSizes, { rules, sizes: terms }) {
  const sizes = Object.fromEntries(Object.entries(terms).map(([symbol, sum]) => [symbol, evaluate(sum, layerSizes)]))
  const grouped = layerSizes.h_kv < layerSizes.h
  return rules[grouped ? "grouped" : "ungrouped"]
    .map((rule) => ({ ...rule, axes: rule.axes.split(" ") }))
    .filter(({ axes }) => axes.length === shape.length && axes.every((symbol, i) => mayBe(symbol, shape[i], sizes)))
    .map((rule) => ({
      ...rule,
      axes: tuple(rule.axes),
      why: rule.axes
        .map((symbol, i) => (symbol in sizes ? `${shape[i]} = ${symbol}` : `${symbol} = ${shape[i]}`))
        .filter((_, i) => !isNumber(rule.axes[i])).join(", "),
    }))
}

/** Whether an axis may have this size; numbers of tokens and samples are free. */
function mayBe(symbol, size, sizes) {
  if (symbol === "batch·h") return size % sizes.h === 0n
  return size === (isNumber(symbol) ? BigInt(symbol) : sizes[symbol] ?? size)
}

const isNumber = (symbol) => /^\d+$/.test(symbol)
const tuple = (axes) => (axes.length === 1 ? `(${axes[0]},)` : `(${axes.join(", ")})`)
const many = (count) => (count === 1 ? "1 reading" : count ? `${count} readings` : "nothing in attention")

function drawn({ shape, readings }, sizes, data) {
  const section = element("section", "wq-answer", element("h2", "", tuple(shape)))
  if (!readings.length) {
    const known = Object.entries(data.sizes).map(([symbol, terms]) => `${symbol} = ${evaluate(terms, sizes)}`)
    section.append(element("p", "", `No array of attention that is known here has shape ${tuple(shape)} at these sizes: ${known.join(", ")}. Where a head is not d_model / h wide, enter d_k.`))
    return section
  }
  const list = element("ol", "")
  for (const { symbol, convention, what, axes, why, question } of readings) {
    list.append(element("li", "",
      element("p", "wq-name", element("code", "", symbol), element("b", "", convention), element("span", "", what)),
      element("p", "wq-ask", question),
      element("p", "wq-why", element("span", "", axes), element("span", "", why)),
    ))
  }
  section.append(list)
  return section
}

function element(name, css, ...content) {
  const made = document.createElement(name)
  if (css) made.className = css
  made.append(...content)
  return made
}

onPage("[data-wq-which-shape]", "which-shape.json", begin)
