// Which Q? — a panel in which a reader changes a layer: its sizes, and the map of its queries. The build made the
// formulas and their letters (src/qkv_site/markdown/change_it.py); here they are computed and their numbers drawn.

import { element } from "./element.js"
import { Misfit, nameOf, shapeOf, sizeOf, valueOf } from "./evaluate.js"
import { asLabelled, fieldsOf, mark, result, tellFaults, textsOf } from "./form.js"
import { chosenNotation } from "./notation.js"
import { wholeNumber } from "./sizes.js"

const STYLES = ["tools.css", "change-it.css"]
const WIDTH = "width" // of what the extra map gives; square if none is entered
const QUERIES = "Q[i]"

const here = (name) => new URL(name, import.meta.url)
const EXAMPLE = `<a href="${here("../start/one-head/")}">the worked example</a>`

/** Put the form, and what follows from it, into a panel. */
export async function fill(panel) {
  const [data] = await Promise.all([ask(panel.dataset.wqChange), ...STYLES.map(styled)])
  begin(panel, data)
}

async function ask(name) {
  const answer = await fetch(here(name))
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`)
  return answer.json()
}

const styled = (name) => new Promise((done, failed) => {
  const link = element("link", { rel: "stylesheet", href: here(name), onload: done, onerror: gone })
  function gone() {
    link.remove()
    failed(new Error(name))
  }
  document.head.append(link)
})

function begin(panel, data) {
  const root = element("div", { className: "wq-tool wq-changing" }, formOf(data), element("div", { className: "wq-shown" }))
  const form = root.firstChild
  const fields = fieldsOf(form)
  const status = element("p", { role: "status" })
  const output = element("ol", { className: "wq-lines" })
  output.dataset.output = ""
  const opened = new Set(data.open) // lines whose numbers are shown
  const borrowed = element("span", {}, " A letter with dots below it is this site's: the chosen letters have none for it.")
  root.lastChild.append(status, output,
    element("p", { className: "wq-scale" }, "The numbers of a head are those of head 1.", borrowed))

  function show() {
    write(form, data)
    borrowed.hidden = !form.querySelector(".wq-borrowed")
    const map = form.elements.map.value
    const extra = hasExtra(map)
    fields[WIDTH].closest(".wq-field").hidden = !extra
    const [sizes, wrong] = sizesOf({ ...textsOf(fields), ...(extra ? {} : { [WIDTH]: "" }) }, data)
    mark(fields, wrong)
    root.classList.toggle("wq-refused", wrong.length > 0)
    output.inert = wrong.length > 0 // the last lines stay, and are not taken for what was entered
    if (wrong.length) return tellFaults(status, spoken(wrong, fields), "The lines below are for what was entered before.")
    fields[WIDTH].placeholder = `= ${sizes.d_model}`
    const { lines, world } = compute(data, map, sizes)
    root.classList.toggle("wq-misfit", lines.some(({ misfit }) => misfit))
    status.innerHTML = [fit(lines, map, world, data), ...about(map, lines, world, data), ...whose(lines, map, world, data)].join(" ")
    output.replaceChildren(...lines.map((line) => drawn(line, world, data, opened)))
  }

  form.addEventListener("submit", (event) => event.preventDefault())
  form.addEventListener("input", show)
  form.addEventListener("click", ({ target }) => {
    const { starts } = target.dataset
    if (!starts) return
    form.reset()
    if (starts === "narrow") {
      form.elements.map.value = "two"
      fields[WIDTH].value = data.sizes.d_k
    }
    show()
  })
  new MutationObserver(show).observe(document.documentElement, { attributeFilter: ["data-notation"] })
  panel.append(root)
  show()
}

/** What the chosen source has of what all sources write. */
function pick(data, said) {
  return data.said[said].find(([, sources]) => sources.split(" ").includes(chosenNotation()))[0]
}

/** A place for what a source writes; `write` fills it. */
function place(said) {
  const span = element("span", {})
  span.dataset.said = said
  return span
}

function write(root, data) {
  for (const span of root.querySelectorAll("[data-said]")) span.innerHTML = pick(data, span.dataset.said)
}

function formOf(data) {
  const choices = Object.entries(data.maps).map(([name, { said }], i) =>
    element("label", {}, element("input", { type: "radio", name: "map", value: name, defaultChecked: i === 0 }), place(said)))
  const sizes = Object.entries(data.fields).map(([name, meaning]) => field(name, meaning, data))
  return element("form", { className: "wq-controls" },
    element("fieldset", { className: "wq-choices" }, element("legend", {}, "From the source to the queries"), ...choices),
    element("fieldset", {},
      element("legend", {}, "Sizes", element("span", {}, `: whole numbers from 1 to ${data.most}, so that all numbers can be shown`)),
      element("div", { className: "wq-fields" }, ...sizes)),
    element("p", { className: "wq-starts" },
      button("narrow", "Try two matrices that do not fit"), " ", button("example", "Back to the example")))
}

function button(starts, said) {
  const made = element("button", { type: "button" }, said)
  made.dataset.starts = starts
  return made
}

function field(name, meaning, data) {
  const id = `wq-change-${name}`
  const input = element("input", { id, inputMode: "numeric", autocomplete: "off", defaultValue: name === WIDTH ? "" : data.sizes[name] })
  input.dataset.size = name
  input.setAttribute("aria-describedby", `${id}-fault`)
  return element("div", { className: "wq-field" },
    element("label", { htmlFor: id }, place(data.letters[name]), " ", element("span", {}, meaning)),
    input,
    element("p", { className: "wq-fault", id: `${id}-fault` }))
}

/** Mistakes for a screen reader: the width of the extra map has no letter, so it is called what its label calls it. */
const spoken = (wrong, fields) => wrong.map((fault) =>
  (fault.field === WIDTH ? { message: element("p", {}, ...asLabelled(fault, fields[WIDTH])).textContent } : fault))

const hasExtra = (map) => map === "two" || map === "merged"

/** The sizes that are entered, and what is wrong with them; the extra map is square if no width is. */
function sizesOf(texts, data) {
  const sizes = { ...data.sizes }
  const wrong = []
  for (const [name, text] of Object.entries(texts)) {
    const [size, refused] = name === WIDTH && !text ? [sizes.d_model] : result(() => Number(wholeNumber(name, text, data.most)))
    sizes[name] = size
    if (refused) wrong.push(refused)
  }
  return [sizes, wrong]
}

/** Every line, with its shape or what is wrong with it; and the world that it was computed in. */
function compute(data, map, sizes) {
  const own = isExample(data, sizes)
  const given = Object.entries(data.given)
  const world = {
    sizes,
    shapes: Object.fromEntries(given.map(([key, { shape }]) => [key, shape])),
    values: Object.fromEntries(given.map(([key, { shape, values }]) =>
      [key, own && values ? values : madeUp(key, shape.map((side) => sizeOf(side, sizes)), data, sizes.h)])),
  }
  const broken = {} // of a role that has no value, the line that does not fit
  const lines = data.maps[map].lines.map((line, i) => {
    const found = value(line, world, broken)
    if (!found.shape) broken[line.defines] = found.because ?? i + 1
    return { ...line, ...found }
  })
  return { lines, world }
}

function value({ defines, tree }, world, broken) {
  const missing = rolesOf(tree).find((key) => Object.hasOwn(broken, key))
  if (missing) return { because: broken[missing] }
  try {
    const shape = shapeOf(tree, world)
    const values = forHeads(defines, world.sizes.h, (head) => valueOf(tree, world, head))
    world.values[defines] = values
    world.shapes[defines] = shape
    return { shape, values }
  } catch (misfit) {
    if (!(misfit instanceof Misfit)) throw misfit
    return { misfit }
  }
}

const rolesOf = (tree) => (tree[0] === "Symbol" ? [tree[1]] : tree.filter(Array.isArray).flatMap(rolesOf))

const isExample = ({ fields, sizes: usual }, sizes) =>
  Object.keys(fields).every((name) => name === WIDTH || sizes[name] === usual[name])

/** Numbers −1, 0 and 1, the same at each visit; a number keeps its place when a size changes. */
function madeUp(key, [rows, columns], { roles }, heads) {
  const name = roles[key][0] === "source" ? "source" : key // the sources are one and the same
  const of = (head) => Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_, column) => hash(`${name} ${head} ${row} ${column}`) % 3 - 1))
  return forHeads(key, heads, of)
}

/** What each head has, for a role that each has its own of; or what all have. */
const forHeads = (key, heads, of) => (key.endsWith("[i]") ? Array.from({ length: heads }, (_, head) => of(head)) : of(0))

/** A whole number that follows from a text (FNV-1a, its bits mixed once more). */
function hash(text) {
  let number = 2166136261
  for (const sign of text) number = Math.imul(number ^ sign.charCodeAt(0), 16777619)
  return Math.imul(number ^ (number >>> 15), 2246822519) >>> 8
}

/** Whether the shapes fit; without a matrix, also why. */
function fit(lines, map, world, data) {
  const at = lines.findIndex(({ misfit }) => misfit)
  if (at >= 0) return `The shapes do not fit in line ${at + 1}: ${unequal(lines[at], world, data)}`
  const usual = map === "none" && compute(data, map, data.sizes).lines.find(({ misfit }) => misfit)
  if (!usual) return "The shapes fit."
  return `The shapes fit, because ${lettersOf(usual, data).join(" and ")} are equal.`
}

/** What is to be known of a map beside its lines. */
function about(map, lines, { sizes }, data) {
  if (map === "none") {
    const [query, key] = ["d_model", "d_k"].map((name) => pick(data, data.letters[name]))
    return [
      `No line computes queries: without a matrix they are the source itself, ${pick(data, data.source)}.`,
      `So a query has ${query} numbers, and a key has ${key}. A score multiplies them pair by pair, so there have to be equally many.`,
    ]
  }
  return map === "merged" ? likeTwo(lines, data, sizes) : []
}

/** Whether one matrix gives what two give, as far as numbers with fifteen digits can tell. */
function likeTwo(lines, data, sizes) {
  const last = lines.at(-1)
  const [one, two] = [last, compute(data, "two", sizes).lines.at(-1)].map(({ values }) => values)
  if (!one || !two) return []
  const difference = Math.max(...one.flat(2).map((each, i) => Math.abs(each - two.flat(2)[i])))
  const letter = pick(data, last.result)
  return [difference < 1e-9
    ? `The last line gives the same ${letter} as with two matrices.`
    : `The last line does not give the same ${letter} as with two matrices: it differs by ${difference}.`]
}

/** Whose numbers are shown; with an extra matrix, the queries are no longer those of the example. */
function whose(lines, map, { sizes }, data) {
  if (!isExample(data, sizes)) return [`These are other sizes than in ${EXAMPLE}, so the numbers that go in are made up: −1, 0 and 1.`]
  if (!hasExtra(map)) return [`The numbers are those of ${EXAMPLE}.`]
  const made = `The matrices that go in are those of ${EXAMPLE}, but ${pick(data, data.extra)} is made up: the numbers −1, 0 and 1.`
  const query = lines.find(({ defines, shape }) => defines === QUERIES && shape)
  return query ? [made, `So ${pick(data, query.result)} is not that of the example.`] : [made]
}

/** A line: its formula, its shape or why it has none, and its numbers to fold out. */
function drawn(line, world, data, opened) {
  const written = element("span", { innerHTML: pick(data, line.written) })
  if (!line.shape) {
    const [why, ...drawing] = line.misfit ? clash(line, world, data) : [`Not computed: line ${line.because} does not fit.`]
    return element("li", {}, written, element("p", { className: "wq-fault", innerHTML: why }), ...drawing)
  }
  const fits = `${shapeOfLine(line.shape, line, world, data)} <b aria-hidden="true">✓</b><span class="wq-unseen">, fits</span>`
  const numbers = element("details", { className: "wq-numbers", open: opened.has(line.defines) }, element("summary", {}, "Numbers"))
  const follow = () => {
    opened[numbers.open ? "add" : "delete"](line.defines)
    if (numbers.open && !numbers.querySelector("figure")) numbers.append(equation(line, world, data))
  }
  numbers.addEventListener("toggle", follow)
  follow()
  return element("li", {}, written, element("span", { className: "wq-is", innerHTML: fits }), numbers)
}

const isTurned = ({ turned }) => turned.includes(chosenNotation())
const inOrder = (line, list) => (isTurned(line) ? [...list].reverse() : list)
const times = (sides) => sides.join(" × ")

/** A shape as the source has it: in letters and in numbers. */
function shapeOfLine(shape, line, world, data) {
  const sides = inOrder(line, shape)
  return `${times(sides.map((side) => pick(data, data.letters[nameOf(side)])))} = ${inNumbers(sides, world)}`
}

const inNumbers = (sides, { sizes }) => times(sides.map((side) => sizeOf(side, sizes)))

/** The two shapes that do not fit, in numbers and as a drawing; the two sides that would have to be equal stand out. */
function clash(line, { sizes }, data) {
  const { parts, shapes } = line.misfit
  const met = inOrder(line, parts.map((part, i) => ({
    group: data.roles[rolesOf(part)[0]][0],
    letter: letterOf(part, line, data),
    lengths: inOrder(line, shapes[i]).map((side) => sizeOf(side, sizes)),
    axis: isTurned(line) ? i : 1 - i, // columns of the left factor meet rows of the right one
  })))
  const [one, other] = met.map(({ lengths, axis }) => lengths[axis])
  const [first, second] = met.map(({ lengths, axis }) => times(lengths.map((each, i) => (i === axis ? `<b>${each}</b>` : each))))
  const sign = element("span", { className: "wq-sign" }, "×")
  const drawing = element("div", { className: "wq-drawn wq-clash", ariaHidden: "true" }, box(met[0]), sign, box(met[1]))
  return [`${first} times ${second} does not fit: ${one} is not ${other}.`, drawing]
}

/** A matrix to scale, as src/qkv_site/markdown/matrices.py draws it. */
function box({ group, letter, lengths: [rows, columns], axis }) {
  const blocks = element("span", { className: "wq-blocks" }, element("span", { className: "wq-block" }))
  for (const [name, length] of Object.entries({ rows, columns, down: 1, across: 1 })) blocks.style.setProperty(`--${name}`, length)
  return element("span", { className: `wq-matrix role-${group} wq-clash-${axis ? "across" : "down"}` },
    element("span", { className: "wq-columns" }, columns), element("span", { className: "wq-rows" }, rows),
    blocks, element("span", { className: "wq-letter", innerHTML: letter }))
}

/** The two sizes that would have to be equal, each by its letter, and what makes them equal. */
function unequal(line, { sizes }, data) {
  const [one, other] = lettersOf(line, data)
  const [first, second] = inOrder(line, line.misfit.sides).map((side) => sizeOf(side, sizes))
  return `${one} = ${first} and ${other} = ${second} have to be equal. To repair it, enter ${one} = ${second}, or ${other} = ${first}.`
}

const lettersOf = (line, data) => inOrder(line, line.misfit.sides).map((side) => pick(data, data.letters[nameOf(side)]))

function letterOf(tree, { parts }, data) {
  const wanted = JSON.stringify(tree)
  return pick(data, parts.find(([part]) => JSON.stringify(part) === wanted)[1])
}

/** The numbers of a line: its factors, if it is a product, and its result. */
function equation(line, world, data) {
  const factors = line.tree[0] === "Product" ? inOrder(line, factorsOf(line.tree)) : []
  const tables = factors.map((tree) => ({ tree, letter: letterOf(tree, line, data) }))
  const result = { tree: line.tree, letter: pick(data, line.result), role: line.defines }
  const parts = [...tables, result].map((part) => ({
    role: rolesOf(part.tree)[0], ...part, shape: shapeOf(part.tree, world), values: valueOf(part.tree, world, 0),
  }))
  const most = {}
  for (const { role, values } of parts) {
    const [group] = data.roles[role]
    most[group] = Math.max(most[group] ?? 0, ...values.flat().map(Math.abs))
  }
  const pieces = parts.map((part, i) => {
    const sign = i === 0 ? "" : i < factors.length ? "×" : "="
    const drawn = element("div", { className: "wq-part" }, element("span", { className: "wq-sign" }, sign), heat(part, line, data, most))
    drawn.style.setProperty("--rows", drawn.querySelectorAll("tbody > tr").length)
    return drawn
  })
  const figure = element("figure", { className: "wq-equation" }, element("div", { className: "wq-drawn" }, ...pieces))
  figure.setAttribute("aria-label", "Numbers")
  return figure
}

const factorsOf = (tree) => (tree[0] === "Product" ? [...factorsOf(tree[1]), tree[2]] : [tree])

/** A matrix with its numbers, as src/qkv_site/markdown/heat_maps.py draws it. */
function heat({ values, shape, letter, role }, line, data, most) {
  const [group, meaning] = data.roles[role]
  const rows = isTurned(line) ? values[0].map((_, i) => values.map((row) => row[i])) : values
  const [down, across] = inOrder(line, shape).map(([kind, name]) => (kind === "Symbol" && data.tokens[name]) || "")
  const [side, other] = inOrder(line, [data.tokens.n_q, data.tokens.n_k]) // what has words on both sides has a query for each key
  const digits = digitsOf(values.flat())
  const cells = (row) => row.map((value) => cell(value, digits, most[group]))
  const name = (word, scope) => element("th", { scope }, element("span", {}, word))
  const head = across ? [element("thead", {}, element("tr", {},
    ...(down ? [element("td", { innerHTML: `${side} ↓<br>${other} →` })] : []), ...data.words.map((word) => name(word, "col"))))] : []
  const caption = element("caption", {
    innerHTML: `${letter}<span class="wq-unseen">, ${meaning},</span> <span class="wq-shape">${rows.length} × ${rows[0].length}</span>`,
  })
  const table = element("table", { className: "wq-heat" }, caption, ...head,
    element("tbody", {}, ...rows.map((row, i) => element("tr", {}, ...(down ? [name(data.words[i], "row")] : []), ...cells(row)))))
  table.style.setProperty("--role", `var(--role-${group})`)
  return element("div", { className: "md-typeset__scrollwrap" }, element("div", { className: "md-typeset__table" }, table))
}

function cell(value, digits, most) {
  const number = (Math.round(value * 10 ** digits) / 10 ** digits || 0).toFixed(digits).replace("-", "−")
  const made = element("td", { className: number.startsWith("−") ? "wq-negative" : "" }, number)
  made.style.setProperty("--part", most ? (Math.abs(value) / most).toFixed(2) : 0)
  return made
}

/** No digit after the point where there is none in any of the numbers, one where that is all, or two. */
const digitsOf = (numbers) => [0, 1].find((digits) => numbers.every((each) => Math.abs(each * 10 ** digits - Math.round(each * 10 ** digits)) < 1e-6)) ?? 2
