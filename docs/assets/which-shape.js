// Which Q? — what an array may be, told from its shape. The page holds the rules of qkv.which; here
// they are only gone through.

import { element } from "./element.js"
import { fieldsOf, linked, linkTo, mark, refuse, result, tellFaults, textsOf } from "./form.js"
import { chosenNotation } from "./notation.js"
import { evaluate, faults, layer, read } from "./sizes.js"

function begin(root) {
  const form = root.querySelector("form")
  const fields = fieldsOf(form)
  const status = root.querySelector(".wq-shown > [role=status]")
  const output = root.querySelector("[data-output]")
  const data = JSON.parse(root.querySelector(":scope > template").content.textContent)

  const chosen = () => data.letters[document.documentElement.dataset.notation] // none for this site's
  let last // the last sizes that could be used

  function show(changed = "") {
    const texts = textsOf(fields)
    const [asked, strange] = result(() => readLines(texts.shape, data))
    const wrong = [strange, ...faults(texts, ["d_model", "h"], ["d_k", "h_kv"], changed)].filter(Boolean)
    const refused = wrong.length > 0
    if (refused) for (const name of ["d_k", "h_kv"]) fields[name].placeholder = "?"
    mark(fields, wrong)
    root.classList.toggle("wq-refused", refused)
    output.inert = refused // the last answer stays, and is not taken for what was entered
    if (refused) return tellFaults(status, wrong, "The answer below is for what was entered before.")
    last = layer(texts, changed)
    for (const name of ["d_k", "h_kv"]) fields[name].placeholder = `= ${last[name]}`
    const lines = asked.map(({ shapes = [], meant = [] }) => ({
      meant,
      says: chain(shapes, last, data),
      answers: once(shapes.map((shape) => answer(shape, last, data))),
    }))
    const letters = lines.flatMap(({ meant }) => meant)
    const alone = asked.map(({ shapes = [] }) => shapes)
    const row = alone.length > 1 && alone.every(([first, ...more]) => first?.length === 2 && !more.length)
    status.textContent = [
      ...(letters.length > 2 ? [`${letters[0].name} is a letter of ${letters.length} texts.`]
        : letters.map(({ name, source }) => `${name} is a letter of ${named(source).replace(/^Th(e|is)\b/, (word) => word.toLowerCase())}.`)),
      ...lines.flatMap(({ answers }) => answers).map(({ shape, found }) => `${tuple(shape)}: ${many(found.length)}.`),
    ].join(" ")
    const together = row ? chain(alone.flat(), last, data) : [] // matrices on lines of their own are a row, too
    output.replaceChildren(...together.map(inARow), ...lines.flatMap(({ meant, says, answers }) => [
      ...meant.map((each) => element("p", { className: "wq-in-a-row", innerHTML: `${named(each.source)}: ${shapeOf(each, last)}` })),
      ...says.map(inARow),
      ...answers.map((each) => drawn(each, chosen())),
    ]))
    back.tell()
    if (changed === "shape" && letters.length) back.choose(letters[0])
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", ({ target }) => {
    if (target.dataset?.back) return
    const { shape, ...sizes } = textsOf(fields)
    linkTo({ shape: shape.replaceAll("\n", ";"), ...sizes })
    show(target.dataset?.size)
  })
  for (const [name, field] of Object.entries(fields)) {
    field.value = (linked(name) ?? field.defaultValue).replaceAll(";", "\n")
  }
  const named = (source) => root.querySelector(`[data-back=source] [value="${source}"]`).textContent
  const back = wayBack(root, data, () => last)
  show()
  new MutationObserver(() => show())
    .observe(document.documentElement, { attributeFilter: ["data-notation"] })
}

const A_ROW = /^\d+\s*[x×]\s*\d+(\s*,\s*\d+\s*[x×]\s*\d+)+$/ // 512 x 512, 512 x 64
const inARow = (said) => element("p", { className: "wq-in-a-row" }, ...[said].flat())

/** The questions that a text asks, one on each line: a shape, several in a row, or a letter. */
function readLines(text, data) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean)
  if (!lines.length) refuse("shape", "No shape is entered: sizes are expected, as in 512, 64.")
  return lines.map((line) => {
    const meant = lettersIn(line, data)
    if (meant.length) return { meant }
    const between = A_ROW.test(line) ? /\s*,\s*/ : /\s*,?\s*(?:\band then\b|\bthen\b|->|→)\s*/
    return { shapes: line.split(between).map((part) => readShape(part, line)) }
  })
}

/** The letters that a line asks for, as in "W_1^Q in Ng's letters": of the sources that it names, or
 * of the one that the reader chose. Else all that have the letter answer, those of the course first. */
function lettersIn(line, { letters, called }) {
  if (!/^\p{L}/u.test(line) || /^(None|torch|TensorShape)/.test(line)) return []
  const words = line.split(/\s+/).sort((a, b) => /[\^_]/.test(b) - /[\^_]/.test(a)) // W_Q before "is"
  const of = (word) => Object.entries(letters).flatMap(([source, roles]) => {
    const found = roles.find(({ name, first }) => [name, first].map(signs).includes(signs(word)))
    const said = wordsOf(words.filter((each) => each !== word).join(" "))
    const score = wordsOf(called[source]).filter((each) => said.includes(each)).length
    return found ? [{ ...found, source, name: word.replace(/[?.,]+$/, ""), score }] : []
  })
  const having = words.map(of).find((found) => found.length) ?? []
  const most = Math.max(...having.map(({ score }) => score))
  if (most > 0) return having.filter(({ score }) => score === most)
  const chosen = having.filter(({ source }) => source === document.documentElement.dataset.notation)
  const rank = ({ source }) => (source.startsWith("ng-") ? 0 : source === "site" ? 1 : 2)
  return chosen.length ? chosen : [...having].sort((a, b) => rank(a) - rank(b))
}

/** What a letter is made of, in whatever order: W_1^Q and W^Q_1 are one letter. */
const signs = (letter) => [...letter.replace(/\d+/g, "1").replace(/[^\p{L}\d]/gu, "").toLowerCase()].sort().join("")
const wordsOf = (text) => [...new Set(text.toLowerCase().match(/\p{L}{2,}|\d+/gu))].filter((word) => !["the", "attention", "section"].includes(word))

/** The sizes of a shape, in the brackets and with the signs of any library; null is a size not known yet. */
function readShape(text, line) {
  const sizes = text.replace(/^(torch\.Size|TensorShape)?[\s([]*/, "").replace(/[\s,)\]]*$/, "")
  const axes = sizes.split(/\s*(?:,|×|x|\*|\bby\b)\s*|\s+/).map((axis) => (/^(None|\?)$/.test(axis) ? null : axis))
  const strange = axes.find((axis) => axis !== null && !/^\d+$/.test(axis))
  if (strange !== undefined) {
    const what = strange ? `“${strange}” is no size` : "a size is missing"
    refuse("shape", `In “${line}”, ${what}: write 512, 64 or 512 x 64, with None for a size that is not known yet. For a letter, choose it under “Find the shape of a letter”.`)
  }
  return axes.map((axis, i) => (axis === null ? null :
    read(axis) ?? refuse("shape", `In “${line}”, axis ${i} is ${axis}: a size from 1 to 999,999,999 is expected.`)))
}

/** What qkv.which returns, and all sizes that a layer has. */
function answer(shape, layerSizes, { rules, sizes: sums }) {
  const sizes = Object.fromEntries(Object.entries(sums).map(([symbol, sum]) => [symbol, evaluate(sum, layerSizes)]))
  const grouped = layerSizes.h_kv < layerSizes.h
  const found = rules[grouped ? "grouped" : "ungrouped"]
    .map((rule) => ({ ...rule, axes: rule.axes.split(" ") }))
    .filter(({ axes }) => axes.length === shape.length && axes.every((symbol, i) => mayBe(symbol, shape[i], sizes)))
    .map((rule) => ({
      ...rule,
      axes: tuple(rule.axes),
      why: rule.axes
        .map((symbol, i) => (symbol in sizes ? `${shape[i]} = ${symbol}` : `${symbol} = ${shape[i] ?? "None"}`))
        .filter((_, i) => !isNumber(rule.axes[i])).join(", "),
    }))
  return { shape, found, sizes }
}

/** Whether an axis may have this size; numbers of tokens and samples are free. */
function mayBe(symbol, size, sizes) {
  if (size === null) return !(symbol in sizes) && !isNumber(symbol)
  if (symbol === "batch·h") return size % sizes.h === 0n
  return size === (isNumber(symbol) ? BigInt(symbol) : sizes[symbol] ?? size)
}

/** What several matrices in a row do: one map, if each takes what the one before it gives. */
function chain(shapes, { d_model }, { course }) {
  if (shapes.length < 2) return []
  const matrices = shapes.every((shape) => shape.length === 2 && !shape.includes(null))
  const names = shapes.map((shape) => shape.join(" × ")).join(", then ")
  if (!matrices) return [`${names}: enter matrices, with two sizes each, to see whether they can follow each other.`]
  const ways = [["X @ W, (in, out)", shapes], ["X @ W.T or W x, (out, in)", shapes.map(([out, from]) => [from, out])]]
  const said = ways.map(([way, maps]) => {
    const gap = maps.findIndex(([from], i) => i && from !== maps[i - 1][1])
    if (gap > 0) return `As ${way}: this does not fit. Matrix ${gap} gives ${maps[gap - 1][1]} numbers, and matrix ${gap + 1} takes ${maps[gap][0]}.`
    const [from, to] = [maps[0][0], maps.at(-1)[1]]
    const one = way.endsWith("(in, out)") ? [from, to] : [to, from]
    return `As ${way}: they fit, ${[from, ...maps.map(([, out]) => out)].join(" → ")}. If nothing stands between them, one matrix of shape ${tuple(one)} does the same.`
  })
  const fits = ways.some(([, maps]) => maps.every(([from], i) => !i || from === maps[i - 1][1]))
  const alike = ways.some(([, maps]) => maps.every(([from]) => from === d_model))
  if (fits || !alike) return said
  const which = shapes.length === 2 ? "both" : "all"
  return [...said, [`Perhaps ${which} matrices take the same ${d_model} numbers: those of the word. `,
    element("a", { href: course }, "How to read the two videos")]]
}

/** What a letter stands for, and its shape in letters and in numbers. */
function shapeOf({ letter, meaning, shape, sides }, sizes) {
  const numbers = sides.map((side) => {
    const known = side.split(" ").map((name) => sizes?.[name === "d_v" ? "d_k" : name])
    return known.every(Boolean) ? known.reduce((a, b) => a * b, 1n) : side.replace(" ", "·")
  })
  return `${letter}: ${meaning}. The shape is ${shape}: ${numbers.join(" × ")}.`
}

/** The form that leads from a letter to its shape. A role that was chosen stays chosen in the letters of
 * another source, if that has one for it. */
function wayBack(root, { letters }, sizesOf) {
  const [source, letter, said] = root.querySelectorAll("[data-back]")
  let role = "W_Q[i]"
  const tell = () => (said.innerHTML = shapeOf(letters[source.value][letter.value], sizesOf()))
  const list = () => {
    const roles = letters[source.value]
    letter.replaceChildren(...roles.map(({ name, meaning }, i) => new Option(`${name}: ${meaning}`, i)))
    letter.value = Math.max(0, roles.findIndex((each) => each.role === role))
    tell()
  }
  const choose = (wanted) => {
    source.value = wanted.source
    role = wanted.role
    list()
  }
  source.addEventListener("change", list)
  letter.addEventListener("change", () => {
    role = letters[source.value][letter.value].role
    tell()
  })
  const follow = () => choose({ source: chosenNotation(), role })
  new MutationObserver(follow)
    .observe(document.documentElement, { attributeFilter: ["data-notation"] })
  follow()
  return { choose, tell }
}

const isNumber = (symbol) => /^\d+$/.test(symbol)
const tuple = (axes) => {
  const said = axes.map((axis) => axis ?? "None")
  return said.length === 1 ? `(${said[0]},)` : `(${said.join(", ")})`
}
const once = (answers) => [...new Map(answers.map((answer) => [tuple(answer.shape), answer])).values()]
const many = (count) => (count === 1 ? "1 possibility" : count ? `${count} possibilities` : "nothing in attention")

function drawn({ shape, found, sizes }, letters) {
  const known = Object.entries(sizes).map(([symbol, size]) => `${symbol} = ${size}`).join(", ")
  const nothing = `No array of attention that is known here has shape ${tuple(shape)} at these sizes: ${known}. Where a head is not d_model / h wide, enter d_k.`
  return element("section", { className: "wq-answer" },
    element("h2", {}, tuple(shape)),
    found.length ? element("ol", {}, ...found.map((each) => line(each, letters))) : element("p", {}, nothing))
}

/** The letters that a source has for the roles that `qkv` names so. */
function written(symbol, letters) {
  const roles = symbol.match(/\w+(\[i\])?/g)
  const said = (letters ?? []).filter(({ role }) => roles.includes(role)).map(({ letter }) => letter)
  return element("span", { className: "wq-written", innerHTML: said.length ? `in the chosen letters: ${said.join(", ")}` : "" })
}

function line({ symbol, convention, what, axes, why, question }, letters) {
  return element("li", {},
    element("p", { className: "wq-name" }, element("code", {}, symbol), written(symbol, letters), element("b", {}, convention), element("span", {}, what)),
    element("p", { className: "wq-ask" }, question),
    element("p", { className: "wq-why" }, element("span", {}, axes), element("span", {}, why)))
}

begin(document.querySelector("[data-wq-which-shape]"))
