// Which Q? — a layer that runs under the reader's hand: one word, step by step. The build made the formulas, their
// letters and the sentences (src/qkv_site/parts/live.py); here they are computed, drawn and moved.

import { copied, element } from "./element.js"
import { Misfit, valueOf } from "./evaluate.js"
import { chosenNotation } from "./notation.js"

const still = matchMedia("(prefers-reduced-motion: reduce)")
const CHOSEN = { one: { second: "one", width: "7" }, none: { second: "none", width: "7" }, misfit: { second: "two", width: "3" }, two: { second: "two", width: "7" }, merged: { second: "merged" } }
let data

// ---- a state, and what follows from it

/** The state that a text names, and what in it this layer does not have. */
function stateOf(text) {
  const state = Object.fromEntries(Object.entries(data.states).map(([name, [usual]]) => [name, usual]))
  const unknown = []
  for (const [name, value] of new URLSearchParams(text)) {
    const known = Object.hasOwn(data.states, name) ? data.states[name] : []
    if (known.includes(value)) state[name] = value
    else unknown.push(value ? `${name}=${value}` : name)
    const number = value.trim() ? Number(value) : NaN
    if (known.includes("1") && !known.includes(value) && Number.isFinite(number)) state[name] = nearest(known, number)
  }
  return [possible(state), unknown]
}

const nearest = (known, number) => known.reduce((best, each) => (Math.abs(each - number) < Math.abs(best - number) ? each : best))

/** A state whose parts go together, at a step that can be computed. */
function possible(state) {
  const made = { ...state, ...(state.alone && { head: "1" }), ...(state.second === "none" && { tied: "" }), ...(state.cross && { causal: "" }) }
  const { misfit } = compute(made)
  return misfit && !canShow(misfit, made.step) ? { ...made, step: misfit.step } : made
}

const place = (step) => data.states.step.indexOf(step)
const canShow = (misfit, step) => !misfit || step === "keys" || place(step) <= place(misfit.step)

const textOf = (state) => Object.entries(state)
  .filter(([name, value]) => name === "word" || name === "step" || value !== data.states[name][0])
  .map(([name, value]) => `${name}=${value}`).join("&")

/** The lines that a state has, by what they are called. */
function linesOf({ second, tied, unscaled }) {
  const queries = { one: ["one"], two: ["two"], merged: ["M", "merged"], none: [] }[second]
  return [...queries, tied ? "tied" : "keys", "values", second === "none" ? "bare" : "scores", unscaled ? "unscaled" : "weights", "mean", "output"]
}

const STEP = { one: "query", two: "query", M: "query", merged: "query", tied: "keys", keys: "keys", values: "keys", bare: "scores", scores: "scores", weights: "weights", unscaled: "weights", mean: "mean", output: "output" }
const lineNamed = (name, state) => data.lines[state.cross ? `${name}.cross` : name]
const rolesOf = ([kind, ...parts]) => (kind === "Symbol" ? parts : (kind === "OverRoot" ? parts.slice(0, 1) : parts).flatMap(rolesOf))

/** All numbers of a state, and which of them are the watched word's. */
export function compute(state) {
  const layer = JSON.stringify({ ...state, word: "", step: "", head: "" })
  if (!layers.has(layer)) layers.set(layer, run(state))
  const words = state.changed ? data.words.with(4, data.others.at(-1)) : data.words
  return { ...layers.get(layer), state, head: Number(state.head) - 1, word: Number(state.word) - 1, words, keys: state.cross ? data.others : words }
}

const layers = new Map()

/** The numbers of each role, for all heads; and the first line that does not fit. */
function run(state) {
  const heads = state.alone ? 1 : 2
  const sizes = { ...data.sizes, h: heads, width: Number(state.width), n_k: state.cross ? data.others.length : data.words.length }
  const values = { ...data.given }
  values.P_Q = values.P_Q.map((row) => row.slice(0, sizes.width))
  values.W_O = values.W_O.slice(0, heads * sizes.d_v)
  if (state.changed) values.X = values.X_Q = values.X.with(4, values.X_K.at(-1))
  const world = { sizes, values }
  let misfit, raw
  for (const name of linesOf(state)) {
    const { defines, tree } = lineNamed(name, state)
    if (rolesOf(tree).some((key) => !values[key])) continue
    try {
      const of = (head) => valueOf(tree, world, head)
      values[defines] = defines.endsWith("[i]") ? Array.from({ length: heads }, (_, head) => of(head)) : of(0)
    } catch (fault) {
      if (!(fault instanceof Misfit)) throw fault
      misfit ??= { name, step: STEP[name], numbers: fault.sides }
    }
    if (defines === "S[i]" && values[defines]) {
      raw = values[defines]
      values[defines] = raw.map((scores) => scores.map((row, query) => row.map((score, key) => (isHidden(state, sizes, query, key) ? -Infinity : score))))
    }
  }
  return { world, misfit, raw }
}

const isHidden = ({ causal, padding }, { n_k }, query, key) => Boolean((causal && key > query) || (padding && key === n_k - 1))

/** The layer that a changed one is compared with: it has the old word 5, or two matrices in a row, or no change. */
function compared({ state }) {
  const { word, head } = state
  const usual = state.changed ? { ...state, changed: "" } : state.second === "merged" ? { ...state, second: "two" } : { ...stateOf("")[0], word, head }
  return textOf({ ...usual, step: "" }) === textOf({ ...state, step: "", word, head }) ? undefined : compute(usual)
}

/** The source of the queries, and what else is computed, for a head. */
const source = ({ state, world }) => world.values[state.cross ? "X_Q" : "X"]
const made = ({ world, head }, key) => world.values[key]?.[head]
const joined = ({ world, word }) => world.values["head[i]"]?.flatMap((each) => each[word])

/** The numbers of the watched word at a step; at that of keys and values, those of all words. */
export function numbersAt(all, step) {
  const { state, word, world, raw, head } = all
  const own = (key) => made(all, key)?.[word]
  switch (step) {
    case "word": return source(all)[word]
    case "query": return state.second === "none" ? source(all)[word] : own("Q[i]")
    case "keys": return ["K[i]", "V[i]"].flatMap((key) => made(all, key).flat())
    case "scores": return raw?.[head][word]
    case "weights": return own("A[i]")
    case "mean": return own("head[i]")
    case "joined": return joined(all)
  }
  return world.values.Y?.[word]
}

/** Those that are marked if they change: of keys and values the word's own. */
function marked(all, step) {
  if (step !== "keys" || all.state.cross) return numbersAt(all, step)
  return ["K[i]", "V[i]"].flatMap((key) => made(all, key)[all.word])
}

// ---- letters and words

const pick = (said) => data.said[said].find(([, sources]) => sources.split(" ").includes(chosenNotation()))[0]
const isTurned = (line) => line.turned.includes(chosenNotation())

/** A number with so many digits after the point. */
export function written(value, digits = 2) {
  if (value === -Infinity) return "−∞"
  return (Math.round(value * 10 ** digits) / 10 ** digits || 0).toFixed(digits).replace("-", "−")
}

const digitsOf = (numbers) => (numbers.every((each) => Math.abs(each * 10 - Math.round(each * 10)) < 1e-6) ? 1 : 2)
const differ = (one, other) => one !== other && !(Math.abs(one - other) < 1e-9)
const largest = (numbers) => numbers.indexOf(Math.max(...numbers))

/** A sentence of the data with its names filled in; stars make bold, and brackets a button that chooses what they name. */
function say(text, names) {
  return text.replace(/\*(.+?)\*/g, "<b>$1</b>")
    .replace(/\[(\w+)\](?!\})/g, (_, name) => `<button type="button" class="wq-choose" data-choose="${name}">${data.second[name]}</button>`)
    .replace(/\{(.+?)\}/g, (_, name) => names[name] ?? pick(data.letters[name]))
}

const italic = (text) => text.replace(/\*(.+?)\*/g, "<i>$1</i>")

/** What sentences may name. */
function namesOf(all) {
  const { state, word, head, world: { sizes }, keys, raw } = all
  const A = made(all, "A[i]")?.[word]
  const scores = raw?.[head]
  const pair = (word + 3) % 5
  const usual = state.unscaled && A && Math.max(...made(compute({ ...state, unscaled: "" }), "A[i]")[word])
  const [turned, columns] = [data.lines[/scores|weights/.test(state.step) ? "weights" : "one"], data.lines.one].map(isTurned)
  return {
    ...sizes, head: head + 1, joined: sizes.h * sizes.d_v, word: all.words[word], row: turned ? "column" : "row",
    "side by side": columns ? "one below the other" : "side by side",
    best: `<i>${keys[largest((state.step === "scores" ? scores?.[word] : A) ?? [0])]}</i>`, most: A && written(Math.max(...A)), share: A && say(data.phrases[written(Math.max(...A)) === "1.00" ? "share-all" : "share"], { most: written(Math.max(...A)) }), usual: A && written(usual),
    seen: say(data.phrases[`seen-${word + 1}`] ?? data.phrases.seen, { count: word + 1 }),
    pair: `<i>${all.words[pair]}</i>`, there: scores && written(scores[word][pair]), back: scores && written(scores[pair]?.[word] ?? 0),
  }
}

/** What happened at a step, as HTML: first what is other than in the layer without changes. */
export function sentence(all) {
  const { state, misfit, word } = all
  const { step, second, tied, unscaled, changed, cross, alone } = state
  const keys = [step]
  if (step === "query") keys[0] = misfit?.step === step ? `query-misfit-${second}` : `query-${second}`
  else if (step === "weights" && unscaled) keys[0] = "weights-unscaled"
  else if (misfit?.step === step) keys[0] = "scores-misfit"
  else if (step === "joined" && alone) keys[0] = "joined-alone"
  const names = namesOf(all)
  if (step === "scores" && tied && !misfit) keys.push(cross ? "scores-tied-cross" : second === "one" ? "scores-symmetric" : "scores-tied-second")
  for (const name of ["tied", "cross", "causal", "padding", "changed"]) {
    if (state[name] && !(name === "changed" && cross && step === "keys")) keys.push(`${step}-${name}`)
  }
  const whose = word < 4 ? "other" : "five"
  names.own = say(data.phrases[`own-${whose}`], names)
  names.hidden = state.padding || state.causal ? data.phrases.hidden : ""
  names.scored = misfit || (cross && word < 4) ? "" : say(data.phrases[`scored-${whose}`], names)
  if (changed && step === "output") {
    const [one, other] = [all, compute({ ...state, changed: "" })].map((each) => numbersAt(each, "output"))
    names.effect = say(data.phrases[word === 4 ? "effect-own" : one.some((each, i) => each !== other[i]) ? "effect" : "no-effect"], names)
  }
  return [...keys.slice(1), keys[0]].filter((key) => data.says[key]).map((key) => say(data.says[key], names)).join(" ")
}

// ---- the drawing of a step

const peak = (numbers) => Math.max(...numbers.filter(Number.isFinite).map(Math.abs)) || 1

function cell(value, group, most, digits, kind = "") {
  const none = value === undefined
  const td = element("td", { className: `${kind} ${none ? "wq-none" : value < 0 && value > -Infinity ? "wq-negative" : ""}`.trim() }, none ? "?" : written(value, digits))
  td.style.setProperty("--role", `var(--role-${group})`)
  const part = none || !Number.isFinite(value) ? 0 : Math.min(1, Math.abs(value) / most)
  td.style.setProperty("--part", (part * (/score|output/.test(group) ? 0.65 : 1)).toFixed(2)) // these have the colour of text
  return td
}

const label = (text, kind = "") => element("th", { className: kind }, element("span", {}, text))
const blank = () => element("td", { className: "wq-blank" })

/** The numbers of the layer that this one is compared with, if there are as many: those that went are struck out. */
function was(before, numbers, group) {
  if (!before || before.length !== numbers?.length) return []
  return [[label("was", "wq-was"), ...before.map((each, i) => cell(each, group, peak(before), digitsOf(before), `wq-was ${written(each) === written(numbers[i]) ? "" : "wq-gone"}`))]]
}

/** A table of rows of cells, or of its transpose. */
function table(letter, shape, rows, turned, kind) {
  const lines = turned ? rows[0].map((_, i) => rows.map((row) => row[i])) : rows
  const made = element("table", { className: `wq-heat ${kind}${turned ? " wq-turned" : ""}` },
    element("caption", { innerHTML: shape ? `${letter} <span class="wq-shape">${(turned ? [...shape].reverse() : shape).join(" × ")}</span>` : letter }),
    element("tbody", {}, ...lines.map((line) => element("tr", {}, ...line))))
  for (const line of lines) {
    const names = line.filter(({ localName }) => localName === "th")
    for (const each of names) each.scope = names.length > 1 ? "col" : "row"
  }
  return made
}

/** A matrix; rows, or what is drawn of them, may be lit. */
function matrix(letter, values, group, { words, across, lit, turned, below = [], kind = "" } = {}) {
  const [most, digits] = [peak(values.flat()), digitsOf(values.flat())]
  const some = lit === undefined ? undefined : [lit].flat()
  const isDim = (row) => (some ? (some.includes(row) ? "wq-lit" : "wq-dim") : "")
  const cells = values.map((row, i) => row.map((value) => cell(value, group, most, digits, isDim(i))))
  const rows = cells.map((row, i) => [...(words ? [label(words[i], isDim(i))] : []), ...row])
  if (across) rows.unshift([...(words ? [blank()] : []), ...across.map((word) => label(word))])
  rows.push(...below)
  return { root: table(letter, [values.length, values[0].length], rows, turned, kind), cells, lit: cells[some?.[0] ?? 0] }
}

/** A product for one word: its vector stands beside a matrix, meets each column, and the sums stand below. */
function machine(letter, vector, group, values, ofMatrix, result, ofResult, { words, across, turned, name, what, before }) {
  const length = Math.max(vector.length, values.length)
  const columns = values[0].map((_, i) => i)
  const [most, digits, top] = [peak(values.flat()), digitsOf(values.flat()), digitsOf(vector)]
  const cells = Array.from({ length }, (_, r) => columns.map((c) => cell(values[r]?.[c], ofMatrix, most, digits)))
  const vec = Array.from({ length }, (_, r) => cell(vector[r], group, peak(vector), top, "wq-vec"))
  const sums = columns.map((c) => cell(result?.[c], ofResult, peak(result ?? [1]), 2, "wq-sum"))
  const rows = vec.map((each, r) => [...(words ? [label(words[r])] : []), each, ...cells[r]])
  if (across) rows.unshift([blank(), ...across.map((word) => label(word))])
  rows.push([...(words ? [blank()] : []), name ? element("th", { className: `wq-name role-${ofResult}`, innerHTML: name }) : blank(), ...sums])
  rows.push(...was(before, result, ofResult).map((row) => (words ? [blank(), ...row] : row)))
  const root = table(letter, [values.length, values[0].length], rows, turned, `wq-machine ${top > 1 || digits > 1 ? "wq-fine" : ""}`)
  return { root, vec, cells, sums, vector, values, result, group, what, across, turned, digits: [top, digits], shapes: [vector.length, values.length, values[0].length] }
}

/** What is drawn of a step: its parts, from left to right, with those that move. */
function drawing(all, base) {
  const { state, word, head, world: { values, sizes }, keys, raw, misfit } = all
  const { step, second } = state
  const line = (name) => lineNamed(name, state)
  const part = (name, key) => pick(line(name).parts[key])
  const { words } = all
  const own = words[word]
  const before = base && numbersAt(base, step)
  const X = source(all)
  const x = state.cross ? "X_Q" : "X"
  const left = (name, key, numbers, group, more) => matrix(part(name, key), numbers, group, { words, lit: word, turned: isTurned(line(name)), kind: "wq-left", ...more })
  const queries = second === "none" ? "bare" : "scores"
  switch (step) {
    case "word": {
      const weights = ["one", "keys", "values"].map((name, i) => {
        const key = `W_${"QKV"[i]}[i]`
        return matrix(part(name, key), values[key][head], "weight", { turned: isTurned(line(name)), kind: "wq-narrow" })
      })
      return { parts: [left("one", x, X, "source", { kind: "", below: was(base && state.changed ? source(base)[4] : undefined, X[4], "source") }), ...weights] }
    }
    case "query": {
      const turned = isTurned(line("one"))
      const one = (numbers, group, weight, ofWeight, result, ofResult, key, name, what) => machine(pick(line(name).parts[key] ?? data.letters[key]), numbers, group, weight, ofWeight, result, ofResult, { turned, what, ...(ofResult === "query" && { name: part("one", "Q[i]"), before }) })
      const W = values["W_Q[i]"][head]
      const Q = values["Q[i]"]?.[head][word]
      if (second === "none") return { parts: [left("one", x, X, "source", { kind: "" })] }
      if (second === "one") return { parts: [left("one", x, X, "source"), one(X[word], "source", W, "weight", Q, "query", "W_Q[i]", "one", "query")] }
      if (second === "merged" && !misfit) return { parts: [left("one", x, X, "source"), one(X[word], "source", values["M[i]"][head], "weight", Q, "query", "M[i]", "merged", "query")] }
      const between = valueOf(data.lines.two.tree[1], { ...all.world, values: { ...values, X } })[word]
      return { parts: [left("two", x, X, "source", { kind: "wq-left wq-spare" }),
        one(X[word], "source", values.P_Q, "weight", between, "source", "P_Q", "two", "result of the first matrix"),
        one(between, "source", W, "weight", Q, "query", "W_Q[i]", "two", "query")] }
    }
    case "keys": {
      const lit = state.cross ? undefined : state.changed ? [word, 4] : [word]
      const [K, V] = [line(state.tied ? "tied" : "keys"), line("values")]
      const weight = state.tied ? "W_Q[i]" : "W_K[i]"
      const other = state.cross ? "X_K" : "X"
      return { rows: true, parts: [
        matrix(pick(K.parts[other]), values[other], "source", { words: keys, lit, turned: isTurned(K) }),
        matrix(pick(K.parts[weight]), values[weight][head], "weight", { turned: isTurned(K) }),
        matrix(pick(K.parts["K[i]"]), values["K[i]"][head], "key", { lit, turned: isTurned(K) }),
        matrix(pick(V.parts["W_V[i]"]), values["W_V[i]"][head], "weight", { turned: isTurned(V) }),
        matrix(pick(V.parts["V[i]"]), values["V[i]"][head], "value", { lit, turned: isTurned(V) })] }
    }
    case "scores": {
      const query = numbersAt(all, "query")
      const Q = second === "none" ? X : values["Q[i]"][head]
      const K = values["K[i]"][head]
      const turned = isTurned(line(queries))
      const columns = K[0].map((_, i) => K.map((row) => row[i]))
      return { parts: [left(queries, second === "none" ? x : "Q[i]", Q, second === "none" ? "source" : "query"),
        machine(part(queries, "K[i].T"), query, second === "none" ? "source" : "query", columns, "key", raw?.[head][word], "score", { across: keys, turned, name: part(queries, "S[i]"), what: "scores", before })] }
    }
    case "weights": {
      const name = state.unscaled ? "unscaled" : "weights"
      const turned = isTurned(line(name))
      const scaled = state.unscaled ? raw[head][word] : raw[head][word].map((each) => each / Math.sqrt(sizes.d_k))
      const masked = scaled.map((each, key) => (isHidden(state, sizes, word, key) ? -Infinity : each))
      const shares = masked.map(Math.exp)
      const A = values["A[i]"][head][word]
      const steps = [["score", raw[head][word]], ...(state.unscaled ? [] : [[`/ √${sizes.d_k}`, scaled]]), ...(state.causal || state.padding ? [["masked", masked]] : []), ["exp", shares], ["/ sum", A]]
      const rungs = steps.map(([, numbers], i) => numbers.map((each) => cell(each, "score", i === steps.length - 1 ? 1 : peak(numbers), 2, i === steps.length - 1 ? "wq-sum" : "")))
      const bars = A.map((each) => {
        const td = element("td", { className: "wq-bar" }, element("span", {}))
        td.style.setProperty("--part", each.toFixed(3))
        return td
      })
      const rows = [[blank(), ...keys.map((each) => label(each))], ...rungs.map((row, i) => [label(steps[i][0]), ...row]), ...was(before, A, "score"), [label("weight"), ...bars]]
      const best = largest(A)
      const many = shares.reduce((sum, each) => sum + each)
      const sum = say(data.phrases.softmax, { best: keys[best], steps: `e<sup>${written(masked[best])}</sup> = ${written(shares[best])}, and ${written(shares[best])} / ${written(many)} = <b>${written(A[best])}</b>` })
      return { parts: [left(queries, "S[i]", raw[head], "score", { across: keys }), { root: table(say(data.phrases.row, { word: own, row: turned ? "column" : "row", letter: part(name, "A[i]") }), undefined, rows, turned, "wq-ladder"), rungs: [...rungs, bars] }], sum }
    }
    case "mean": return { parts: [left("mean", "A[i]", values["A[i]"][head], "score", {}),
      machine(part("mean", "V[i]"), values["A[i]"][head][word], "score", values["V[i]"][head], "value", values["head[i]"][head][word], "output", { words: keys, turned: isTurned(line("mean")), name: part("mean", "head[i]"), what: "mean", before })] }
    case "joined": {
      const turned = isTurned(line("output"))
      const heads = values["head[i]"].map((each, i) => matrix(`${part("mean", "head[i]")}, <i>i</i> = ${i + 1}:`, each, "output", { words, lit: word, turned }))
      return { parts: [...heads, matrix(own, [joined(all)], "output", { words: [""], turned, below: was(before, joined(all), "output"), kind: "wq-joined" })], joins: true }
    }
  }
  const turned = isTurned(line("output"))
  const each = words.map((_, i) => joined({ ...all, word: i }))
  const W_O = part("output", "W_O")
  return { parts: [matrix(state.alone ? "head 1" : turned ? "heads, one below the other" : "heads, side by side", each, "output", { words, lit: word, turned, kind: "wq-left wq-spare" }),
    machine(W_O, joined(all), "output", values.W_O, "weight", values.Y[word], "output", { turned, name: part("output", "Y"), what: "output", before })] }
}

/** Put a vector beside one column of its matrix: each product is read where it is made, and the sum is written out. */
function meet(it, column, sum, all) {
  for (const old of it.root.querySelectorAll(".wq-pill")) old.remove()
  for (const each of it.sums) each.classList.toggle("wq-on", each === it.sums[column])
  it.cells.forEach((row, r) => r < it.values.length && row[column].append(element("small", { className: `wq-pill role-${it.group}` }, it.vector[r] === undefined ? "× ?" : `×${written(it.vector[r], it.digits[0])}`)))
  if (!it.result) return
  const terms = it.vector.map((each, r) => `<span class="role-${it.group}">${written(each, it.digits[0])}</span>·${it.values[r][column] < 0 ? `(${written(it.values[r][column], it.digits[1])})` : written(it.values[r][column], it.digits[1])}`)
  const names = { word: all.words[all.word], what: it.what, place: column + 1, other: it.across?.[column] }
  sum.innerHTML = say(data.phrases.sum, { which: say(it.across ? data.phrases.with : data.phrases.number, names), terms: terms.join(" + "), value: written(it.result[column]) })
}

/** The shapes of a product, the sides that have to be equal marked. */
function shapes(parts, word) {
  const machines = parts.filter(({ shapes: of }) => of)
  if (!machines.length) return ""
  const factors = [[1, machines[0].shapes[0]], ...machines.map(({ shapes: [, rows, columns] }) => [rows, columns])]
  const last = machines.at(-1)
  const all = factors.map(([rows, columns], i) => {
    const met = (one, other) => (other === undefined ? one : `<b class="${one === other ? "" : "wq-bad"}">${one}</b>`)
    const sides = [met(rows, factors[i - 1]?.[1]), met(columns, factors[i + 1]?.[0])]
    return (last.turned ? sides.reverse() : sides).join(" × ")
  })
  const result = last.result ? (last.turned ? [last.result.length, 1] : [1, last.result.length]).join(" × ") : "?"
  return `<span>${word}: </span>${(last.turned ? all.reverse() : all).join(" · ")} → ${result}`
}

// ---- motion

const wait = (ms) => new Promise((done) => setTimeout(done, ms))

async function fly(stage, from, to, text, ms, delay = 0) {
  if (!from.offsetParent) return // a phone has no room for it
  const [a, b, s] = [from, to, stage].map((each) => each.getBoundingClientRect())
  const ghost = element("span", { className: "wq-ghost", ariaHidden: "true" }, text)
  Object.assign(ghost.style, { left: `${a.x - s.x + stage.scrollLeft}px`, top: `${a.y - s.y}px`, width: `${a.width}px`, height: `${a.height}px` })
  stage.append(ghost)
  const move = ghost.animate([{ transform: "none" }, { transform: `translate(${b.x - a.x + (b.width - a.width) / 2}px, ${b.y - a.y + (b.height - a.height) / 2}px)` }], { duration: ms, delay, easing: "cubic-bezier(.45,0,.25,1)", fill: "both" })
  return move.finished.catch(() => {}).then(() => ghost.remove())
}

/** Show how a step is computed; `gone` says that the reader went on. */
async function move(stage, { parts, rows, joins }, show, gone) {
  const hide = (cells, hidden = true) => cells.forEach((each) => each.classList.toggle("wq-pending", hidden))
  const machines = parts.filter(({ sums }) => sums)
  const reveal = async (list, ms) => {
    list.forEach((each) => hide(each))
    for (const each of list) {
      await wait(ms)
      hide(each, false)
      if (gone()) return
    }
  }
  machines.forEach((it) => hide([...it.vec, ...it.sums]))
  let from = parts[0].lit
  for (const it of machines) {
    await Promise.all(it.vector.map((each, r) => fly(stage, from[r], it.vec[r], written(each, it.digits[0]), 520, r * 30)))
    hide(it.vec, false)
    if (gone()) return
    for (const column of it.sums.keys()) {
      show(it, column)
      await wait(column ? 180 : 450)
      if (gone()) return
      const sum = it.sums[column]
      let sofar = 0
      if (it.result) await Promise.all(it.vector.map(async (each, r) => {
        const product = each * it.values[r][column]
        await fly(stage, it.cells[r][column], sum, written(product), column ? 260 : 480, r * (column ? 25 : 140))
        sum.firstChild.textContent = written(sofar += product)
        sum.classList.add("wq-sofar")
        hide([sum], false)
      }))
      if (it.result) sum.firstChild.textContent = written(it.result[column])
      sum.classList.remove("wq-sofar")
      hide([sum], false)
      if (gone()) return
    }
    from = it.sums
  }
  if (rows) await reveal(parts[2].cells.map((each, i) => [...each, ...parts[4].cells[i]]), 180)
  if (parts[1]?.rungs) await reveal(parts[1].rungs, 330)
  if (joins) {
    const row = parts.at(-1).cells[0]
    hide(row)
    for (const [i, { lit }] of parts.slice(0, -1).entries()) {
      await Promise.all(lit.map((each, c) => fly(stage, each, row[i * lit.length + c], each.textContent, 600, c * 40)))
      hide(row.slice(i * lit.length, (i + 1) * lit.length), false)
      if (gone()) return
    }
  }
}

// ---- the figure

/** Steps of a state below each other, for paper. */
function onPaper(state) {
  const steps = data.states.step.map((step) => compute({ ...state, step })).filter(({ misfit, state: { step } }) => canShow(misfit, step))
  return element("div", { className: "wq-paper" }, ...steps.map((all) => {
    const drawn = drawing(all, compared(all))
    const formulas = linesOf(state).filter((name) => STEP[name] === all.state.step).map((name) => pick(lineNamed(name, state).written))
    return element("section", {}, element("p", { innerHTML: [...formulas, sentence(all)].join(" &ensp; ") }), element("div", { className: "wq-stage" }, ...drawn.parts.map(({ root }) => root)))
  }))
}

/** The state as a program. */
export function programOf(state) {
  const text = data.numpy
  const all = compute(state)
  const lines = linesOf(state).filter((name) => name !== "output").flatMap((name) => {
    const line = lineNamed(name, state).numpy
    return STEP[name] !== "scores" ? line : [state.second === "none" && "Q = X", line, "scores = S.copy()", state.causal && text.causal, state.padding && text.padding].filter(Boolean)
  })
  const names = { width: state.width, h: all.world.sizes.h, head: all.head, word: all.word }
  const second = ["two", "merged"].includes(state.second)
  return [text.begin, (state.cross || state.changed) && text.other, state.changed && text.changed, second && text.second, text.loop,
    ...[...lines, "made.append((Q, K, V, scores, A, head))"].map((line) => `    ${line}\n`), text.end]
    .filter(Boolean).join("").trim().replace(/\{(width|h|head|word)\}/g, (_, name) => names[name]) + "\n"
}

/** What a question says of a state: whether it is answered, and why. */
export function answer({ id, ...texts }, all) {
  const { state, misfit, raw, world: { sizes } } = all
  const weight = made(all, "A[i]")?.[2][4]
  const scores = raw?.[all.head]
  const names = { ...sizes, there: scores && written(scores[0][3]), back: scores && written(scores[3]?.[0] ?? 0), weight: weight !== undefined && (written(weight) === "0.00" ? "less than 0.01" : written(weight)) }
  const pairs = () => scores.every((row, i) => row.every((each, j) => Math.abs(each - scores[j][i]) < 1e-9))
  const key = {
    symmetric: () => (misfit ? "misfit" : state.cross ? "cross" : pairs() ? "right" : state.tied ? "tied" : state.causal || state.padding ? "masked" : state.unscaled ? "unscaled" : "start"),
    fit: () => (state.second === "one" ? "start" : state.second === "none" ? "none" : misfit ? "misfit" : state.second === "merged" ? "merged" : "right"),
    ignore: () => (misfit ? "misfit" : state.cross ? "cross" : state.causal ? "right" : state.padding ? "padding" : state.unscaled ? "unscaled" : "start"),
  }[id]()
  return [["right", "merged", "padding"].includes(key) || (id === "ignore" && key === "cross"), say(italic(texts[key]), names)]
}

/** Fill a figure: the whole layer, or a window on one step of it. */
function begin(figure) {
  const whole = !figure.dataset.wqLive
  const address = () => (whole && location.hash.includes("=") ? location.hash.slice(1) : figure.dataset.wqLive)
  let [state, unknown] = stateOf(address())
  let moves = 0, playing = false, note = "", asking // the question that is answered at the figure
  const button = (text, act, properties = {}) => element("button", { type: "button", onclick: act, ...properties }, text)
  const group = (name, items, className = "wq-choice") => element("div", { className, role: "group", ariaLabel: name }, ...items)
  const words = data.words.map((_, i) => button("", () => set({ word: String(i + 1) })))
  const heads = ["1", "2"].map((head) => button(`head ${head}`, () => set({ head })))
  const choose = (name) => set({ ...CHOSEN[name], step: name === "none" ? "scores" : "query" })
  const kinds = Object.entries(data.second).map(([name, text]) => button(text, () => choose(name)))
  const width = element("input", { inputMode: "numeric", autocomplete: "off", size: 2, onchange: () => setWidth(width.value.trim()) })
  const widths = element("label", { className: "wq-width" }, "the first gives ", width, " numbers")
  const switches = Object.entries(data.switches).map(([name, text]) => {
    const box = element("input", { type: "checkbox", onchange: () => set({ [name]: box.checked ? "on" : "", ...(box.checked && { step: data.acts[name] }) }, { name }) })
    box.dataset.switch = name
    return [box, element("label", {}, box, " ", text)]
  })
  const formula = element("ol", { className: "wq-formulas" })
  const shape = element("p", { className: "wq-shapes" })
  const says = element("p", { className: "wq-says", role: "status" })
  const stage = group(`The step, drawn. ${whole ? "Left and right arrow: the step. " : ""}Up and down: the word. Space: play.`, [], "wq-stage")
  stage.tabIndex = 0
  const [next, back, play] = [button("Next →", () => go(1), { className: "wq-next" }), button("Back", () => go(-1)), button("Play", playAll)]
  const trail = data.states.step.map((step) => button("", () => set({ step })))
  const key = element("p", { className: "wq-key" })
  const asked = data.questions.map(({ asks }, i) => element("li", {}, element("p", { innerHTML: italic(asks) }), element("p", {}), button(data.phrases.try, () => take(i))))
  const foot = element("p", { className: "wq-foot" })
  const code = element("code", {})
  const copy = (text, said) => button(said, async ({ target }) => {
    target.textContent = (await copied(text())) ? "Copied" : "Select it, and copy"
    setTimeout(() => (target.textContent = said), 3000)
  })
  const ask = (name, items, className) => element("div", { className: "wq-if" }, element("span", { ariaHidden: "true" }, name), group(name, items, className))
  const second = ask("Matrices between a word and its query", kinds)
  second.append(widths)
  const open = element("a", { href: `${figure.dataset.whole}#${textOf(state)}` }, "Watch the whole layer")
  const question = element("p", { className: "wq-asked", role: "status", hidden: true })
  const main = [question, element("div", { className: "wq-line" }, formula, shape), says, stage, key]
  const bar = element("div", { className: "wq-go" }, back, next, play)
  const program = element("details", { className: "wq-program" }, element("summary", {}, "This layer as NumPy, and a link to it"),
    element("p", {}, copy(() => code.textContent, "Copy as NumPy"), " ", copy(() => location.href, "Copy the link")), element("pre", {}, code))
  if (whole) {
    figure.replaceChildren(bar, element("ol", { className: "wq-trail", ariaLabel: "Steps" }, ...trail.map((each) => element("li", {}, each))), ...main,
      element("section", { className: "wq-panel" }, ask("Word", words), ask("Head", heads), second, ask("What if", switches.map(([, each]) => each), "wq-switches"), button("Start again", () => set(stateOf("")[0]), { className: "wq-again" })),
      element("section", { className: "wq-tasks" }, element("h2", {}, data.phrases.tasks), element("ol", { className: "wq-asks" }, ...asked)), program,
      foot)
  } else {
    figure.replaceChildren(...(state.second === "one" ? [] : [second]), ...main, element("p", { className: "wq-foot" }, play, " ", open))
    play.onclick = () => paint(true)
    play.textContent = "Play again"
  }
  program.ontoggle = () => tellProgram()
  const tellProgram = () => program.open && (code.textContent = programOf(state))

  /** A question stands at the figure, with what it says of each try. */
  function take(i) {
    asking = asking === i ? undefined : i
    draw(compute(state), compared(compute(state)))
    if (asking !== undefined) figure.scrollIntoView({ behavior: still.matches ? "instant" : "smooth" })
  }

  /** Change parts of the state; what cannot stand beside them ends, and that is said. */
  function set(change, { name = change.second, quiet = false } = {}) {
    playing = false
    const before = { ...state, ...change }
    if (name === "tied" && change.tied && before.second === "none") before.second = "one"
    if (name === "causal" && change.causal) before.cross = ""
    const after = possible(before)
    const ended = { none: state.tied, tied: state.second === "none" && change.tied, cross: state.causal && change.cross, causal: state.cross && change.causal }[name]
    note = ended ? data.excludes[name] : ""
    state = after
    unknown = []
    if (whole) setTimeout(() => history.replaceState(history.state, "", `#${textOf(state)}`)) // after what is seen: it takes milliseconds
    else open.href = `${figure.dataset.whole}#${textOf(state)}`
    const painted = paint(true)
    if (!quiet) requestAnimationFrame(bringIntoSight)
    return painted
  }

  /** What a reader's choice did is in sight; what plays by itself moves no page. */
  function bringIntoSight() {
    const [above, shown] = [bar, stage].map((each) => each.getBoundingClientRect().bottom)
    if (whole && (says.getBoundingClientRect().top < above || shown > innerHeight)) figure.scrollIntoView({ behavior: still.matches ? "instant" : "smooth" })
  }

  function setWidth(text) {
    const known = data.states.width.includes(text)
    width.setAttribute("aria-invalid", !known)
    if (known) return set({ width: text, step: "query" })
    note = data.phrases.width.replace("{what}", () => text).replace("{width}", state.width)
    width.value = state.width
    tell(compute(state))
    bringIntoSight()
  }

  /** The sentence of the step, with what else has to be said first. */
  function tell(all) {
    says.innerHTML = sentence(all)
    const first = [unknown.length ? data.phrases.unknown.replace("{what}", () => `“${unknown.join(", ")}”`) : "", note].filter(Boolean).join(" ")
    if (first) says.prepend(element("b", { className: "wq-notice" }, first), " ")
  }

  function paint(moving) {
    const mine = ++moves
    const all = compute(state)
    const base = compared(all)
    const drawn = drawing(all, base)
    const last = drawn.parts.filter(({ sums }) => sums).at(-1)
    const focused = figure.contains(document.activeElement) && document.activeElement
    const sum = element("p", { className: "wq-sum-text", innerHTML: drawn.sum ?? "" })
    stage.replaceChildren(...drawn.parts.flatMap(({ root }, i) => (i && root.matches(".wq-machine, .wq-ladder, .wq-joined") ? [element("span", { className: "wq-sign", ariaHidden: "true" }, "→"), root] : [root])), sum)
    stage.classList.toggle("wq-pair", drawn.parts.filter(({ sums }) => sums).length > 1)
    const show = (it, column) => meet(it, column, sum, all)
    for (const it of drawn.parts.filter(({ sums, result }) => sums && result)) {
      it.sums.forEach((each, column) => {
        const said = { ariaLabel: `${each.textContent}, show its sum`, onmouseenter: () => moves === mine && show(it, column), onfocus: () => show(it, column) }
        each.replaceChildren(button(each.textContent, () => show(it, column), said))
      })
    }
    if (last) show(last, base ? Math.max(0, numbersAt(base, state.step)?.findIndex((each, i) => differ(each, last.result?.[i])) ?? 0) : 0)
    shape.innerHTML = shapes(drawn.parts, all.words[all.word])
    tell(all)
    draw(all, base)
    if (focused && (!focused.isConnected || focused.disabled)) stage.focus({ preventScroll: true }) // what had it is gone
    if (!moving || still.matches) return Promise.resolve()
    return move(stage, drawn, show, () => moves !== mine)
  }

  /** All that is not the drawing. */
  function draw(all, base) {
    const { misfit } = all
    const lines = linesOf(state)
    const shown = [...lines, state.cross, chosenNotation()].join(" ")
    if (formula.dataset.shown !== shown) formula.replaceChildren(...lines.map((name) => element("li", { innerHTML: pick(lineNamed(name, state).written) })))
    formula.dataset.shown = shown
    lines.forEach((name, i) => {
      const part = { word: ["query", "keys"], joined: ["output"] }[state.step] ?? [state.step] // whose formulas are lit
      formula.children[i].classList.toggle("wq-now", part.includes(STEP[name]))
      formula.children[i].classList.toggle("wq-bad", misfit?.name === name)
    })
    const press = (buttons, which) => buttons.forEach((each, i) => each.setAttribute("aria-pressed", i === which))
    words.forEach((each, i) => (each.textContent = all.words[i]))
    press(words, all.word)
    press(heads, all.head)
    heads[1].disabled = Boolean(state.alone)
    press(kinds, Object.keys(data.second).indexOf(state.second === "two" && misfit ? "misfit" : state.second))
    widths.hidden = !["two", "merged"].includes(state.second)
    width.value = state.width
    for (const [box] of switches) box.checked = Boolean(state[box.dataset.switch])
    const steps = data.states.step.map((step) => [step, ...[all, base].map((it) => it && marked(it, step))])
      .map(([step, mine, other]) => ({ step, mine, same: mine && other && mine.length === other.length && !mine.some((each, j) => differ(each, other[j])), other }))
    const others = steps.some(({ mine, other, same }) => mine && other && !same)
    const merged = state.second === "merged" && !state.changed
    const whose = state.changed ? "word" : merged ? "merged" : "layer"
    const keyed = [whole && `${others ? "other" : "same"}-${whose}`, stage.querySelector(".wq-was") && `was-${whose}`].filter(Boolean)
    key.innerHTML = base && !misfit ? say(keyed.map((name) => data.phrases[name]).join(" "), namesOf(all)) : ""
    foot.textContent = `${data.phrases.trained} ${formula.querySelector(".wq-borrowed") ? data.phrases.borrowed : ""}`
    if (!whole) return
    steps.forEach(({ step, mine, other, same }, i) => {
      const shown = numbersAt(all, step)?.slice(0, 8) ?? []
      const mini = element("span", { className: "wq-mini-row", ariaHidden: "true" }, ...shown.map((number) => {
        const bit = element("i", {})
        bit.style.setProperty("--part", (Math.abs(number) / peak(shown)).toFixed(2))
        return bit
      }))
      mini.style.setProperty("--role", `var(--role-${{ word: "source", query: "query", keys: "key" }[step] ?? "output"})`)
      const mark = !mine || !other ? "" : !same ? " ≠" : merged && i > 0 && step !== "keys" ? " =" : ""
      trail[i].replaceChildren(element("span", {}, data.steps[step], element("b", {}, mark)), mine ? (step === "keys" ? "" : mini) : "?")
      trail[i].disabled = !canShow(misfit, step)
      if (step === state.step) trail[i].setAttribute("aria-current", "step")
      else trail[i].removeAttribute("aria-current")
    })
    for (const [each, by] of [[back, -1], [next, 1]]) each.disabled = !following(by)
    play.textContent = playing ? "Pause" : "Play"
    question.hidden = asking === undefined
    data.questions.forEach((each, i) => {
      const [right, why] = answer(each, all)
      const said = `${right ? "✓ " : ""}${why}`
      asked[i].classList.toggle("wq-right", right)
      asked[i].children[1].innerHTML = said
      asked[i].lastChild.setAttribute("aria-pressed", asking === i)
      if (asking === i) question.innerHTML = `<b>${say(data.phrases.asked, { number: i + 1 })}</b> ${italic(each.asks)} <b>${said}</b>`
    })
    tellProgram()
  }

  /** The next step, or the one before, that can be computed. */
  function following(by = 1) {
    const step = data.states.step[place(state.step) + by]
    return step && canShow(compute(state).misfit, step) ? step : undefined
  }

  function go(by) {
    const step = following(by)
    if (step) set({ step })
  }

  async function playAll() {
    if (playing) return paint((playing = false)) // it stops where it is, with all numbers
    const mine = {} // who pauses and plays again starts another run
    let painted = set(following() ? {} : { step: "word" }) // a reader pressed it: the layer comes into sight once
    for (playing = mine; ; playing = mine) {
      play.textContent = "Pause"
      await painted
      await wait(still.matches ? 4500 : 1800)
      const step = playing === mine && following()
      if (!step) break
      painted = set({ step }, { quiet: true })
    }
    if (playing === mine) paint((playing = false))
  }

  figure.addEventListener("click", ({ target: { dataset } }) => dataset.choose && choose(dataset.choose))
  figure.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input")) return
    const onStage = event.target === stage
    const acts = { ArrowRight: whole && (() => go(1)), ArrowLeft: whole && (() => go(-1)), ArrowDown: onStage && (() => set({ word: String((all() % 5) + 1) })), ArrowUp: onStage && (() => set({ word: String(((all() + 3) % 5) + 1) })), " ": onStage && (() => play.click()) }
    const act = Object.hasOwn(acts, event.key) && acts[event.key]
    if (!act) return
    event.preventDefault()
    act()
  })
  const all = () => Number(state.word)
  if (whole) {
    addEventListener("hashchange", () => {
      if (!location.hash.includes("=")) return
      ;[state, unknown] = stateOf(address())
      note = ""
      paint(true)
    })
    addEventListener("beforeprint", () => figure.append(onPaper(state)))
    addEventListener("afterprint", () => figure.querySelector(".wq-paper")?.remove())
  }
  new MutationObserver(() => paint(false)).observe(document.documentElement, { attributeFilter: ["data-notation"] })
  paint(false)
}

async function load(figure) {
  try {
    if (!data) {
      const answer = await fetch(new URL("live.json", import.meta.url))
      if (!answer.ok) throw new Error(`live.json: ${answer.status}`)
      data = await answer.json()
    }
    begin(figure)
  } catch (fault) {
    figure.querySelector(".wq-live-wait")?.prepend(`This layer could not be loaded: ${fault.message}. To try again, reload the page. `)
    throw fault
  }
}

const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue
    near.unobserve(target)
    load(target)
  }
}, { rootMargin: "400px" })
for (const figure of document.querySelectorAll("[data-wq-live]")) near.observe(figure)
