// Which Q? — what an array may be, told from its shape. The page holds the rules of qkv.which; here
// they are only gone through.

import { element } from "./element.js"
import { fieldsOf, linked, linkTo, mark, refuse, result, textsOf } from "./form.js"
import { onPage } from "./page.js"
import { evaluate, layer, read } from "./sizes.js"

function begin(root) {
  const form = root.querySelector("form")
  const fields = fieldsOf(form)
  const status = root.querySelector("[role=status]")
  const output = root.querySelector("[data-output]")
  const data = JSON.parse(root.querySelector(":scope > template").content.textContent)

  function show() {
    const texts = textsOf(fields)
    const [answers, refused] = result(() => {
      const shapes = readShapes(texts.shape)
      const sizes = layer(texts)
      for (const name of ["d_k", "h_kv"]) fields[name].placeholder = sizes[name]
      return shapes.map((shape) => answer(shape, sizes, data))
    })
    mark(fields, refused)
    root.classList.toggle("wq-refused", Boolean(refused))
    status.textContent = refused
      ? refused.message
      : answers.map(({ shape, readings }) => `${tuple(shape)}: ${many(readings.length)}.`).join(" ")
    output.replaceChildren(...(answers ?? []).map(drawn))
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", () => {
    const { shape, ...sizes } = textsOf(fields)
    linkTo({ shape: shape.replaceAll("\n", ";"), ...sizes })
    show()
  })
  for (const [name, field] of Object.entries(fields)) {
    field.value = (linked(name) ?? field.defaultValue).replaceAll(";", "\n")
  }
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

/** What qkv.which returns, and all sizes that a layer has. */
function answer(shape, layerSizes, { rules, sizes: sums }) {
  const sizes = Object.fromEntries(Object.entries(sums).map(([symbol, sum]) => [symbol, evaluate(sum, layerSizes)]))
  const grouped = layerSizes.h_kv < layerSizes.h
  const readings = rules[grouped ? "grouped" : "ungrouped"]
    .map((rule) => ({ ...rule, axes: rule.axes.split(" ") }))
    .filter(({ axes }) => axes.length === shape.length && axes.every((symbol, i) => mayBe(symbol, shape[i], sizes)))
    .map((rule) => ({
      ...rule,
      axes: tuple(rule.axes),
      why: rule.axes
        .map((symbol, i) => (symbol in sizes ? `${shape[i]} = ${symbol}` : `${symbol} = ${shape[i]}`))
        .filter((_, i) => !isNumber(rule.axes[i])).join(", "),
    }))
  return { shape, readings, sizes }
}

/** Whether an axis may have this size; numbers of tokens and samples are free. */
function mayBe(symbol, size, sizes) {
  if (symbol === "batch·h") return size % sizes.h === 0n
  return size === (isNumber(symbol) ? BigInt(symbol) : sizes[symbol] ?? size)
}

const isNumber = (symbol) => /^\d+$/.test(symbol)
const tuple = (axes) => (axes.length === 1 ? `(${axes[0]},)` : `(${axes.join(", ")})`)
const many = (count) => (count === 1 ? "1 reading" : count ? `${count} readings` : "nothing in attention")

function drawn({ shape, readings, sizes }) {
  const known = Object.entries(sizes).map(([symbol, size]) => `${symbol} = ${size}`).join(", ")
  const nothing = `No array of attention that is known here has shape ${tuple(shape)} at these sizes: ${known}. Where a head is not d_model / h wide, enter d_k.`
  return element("section", { className: "wq-answer" },
    element("h2", {}, tuple(shape)),
    readings.length ? element("ol", {}, ...readings.map(line)) : element("p", {}, nothing))
}

function line({ symbol, convention, what, axes, why, question }) {
  return element("li", {},
    element("p", { className: "wq-name" }, element("code", {}, symbol), element("b", {}, convention), element("span", {}, what)),
    element("p", { className: "wq-ask" }, question),
    element("p", { className: "wq-why" }, element("span", {}, axes), element("span", {}, why)))
}

onPage("[data-wq-which-shape]", begin)
