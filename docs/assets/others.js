// Which Q? — what is no formula: shapes, names of weights and messages of errors. It is the part of
// src/qkv/reading that reads them, again, and goes by the same data; a test compares the two.

import { known, put, Refused, same, whole } from "./tree.js"

export const empty = { which: "", tokens: "", texts: [], letters: {}, wrong: [], says: [], line: "", page: "" }
let M, T, item

export function prepare(given) {
  T = given
  M = given.messages
  item = new RegExp(`${M.shape.label}(${M.shape.one}|${M.shape.letters})`, "g")
}

export function error(typed) {
  const line = typed.split(/\s+/).join(" ")
  for (const { pattern, title, says, page } of M.message) {
    const found = new RegExp(pattern, "i").exec(line)
    if (!found) continue
    const number = (_, groups) => {
      const [first, ...others] = groups.split("/").map((group) => (group[0] === "#" ? group.slice(1) : found[group] ?? ""))
      if (!others.length) return first
      const value = first / others.reduce((all, each) => all * (Math.abs(each) || 1), 1)
      return Number.isInteger(value) ? value : value.toFixed(1)
    }
    const filled = (said) => said.replace(/\{([\d/#]+)\}/g, number)
    return { ...empty, kind: "error", title: filled(title), says: says.map(filled), page }
  }
}

/** What qkv.which returns for a shape. */
function candidates(shape, given) {
  const { d_model, h, h_kv = h } = given
  if (!given.d_k && d_model % h) return []
  if (!(h > 0) || h % h_kv) return []
  const layer = { d_model, h, h_kv, d_k: given.d_k ?? d_model / h }
  const of = (terms) => terms.reduce((sum, [number, ...names]) => sum + names.reduce((product, name) => product * layer[name], number), 0)
  const sizes = Object.fromEntries(Object.entries(T.shapes.sizes).map(([symbol, terms]) => [symbol, of(terms)]))
  const may = (axis, size) => {
    if (size === null) return !(axis in sizes) && !/^\d+$/.test(axis)
    return axis === "batch·h" ? size % h === 0 : size === (/^\d+$/.test(axis) ? Number(axis) : sizes[axis] ?? size)
  }
  return T.shapes.rules[h_kv < h ? "grouped" : "ungrouped"].map((rule) => ({ ...rule, axes: rule.axes.split(" ") }))
    .filter(({ axes }) => axes.length === shape.length && axes.every((axis, i) => may(axis, shape[i])))
    .map((rule) => ({ ...rule, known: rule.axes.filter((axis) => axis in sizes).join() }))
}

/** What arrays of these shapes may be, and whether they fit. */
export function shapes(text) {
  if (text.includes(")(")) return undefined // a layer that is made and called
  const S = M.shape, given = {}, filler = S.filler.split(" ")
  const linear = whole(S.linear, text)
  let typed = linear ? `(${linear[2]}, ${linear[1]})` : text
  for (const [pattern, said] of Object.entries(S.spelling)) typed = typed.replace(new RegExp(pattern, "g"), said.replace(/\\(\d)/g, "$$$1"))
  typed = typed.replace(new RegExp(S.sizes, "g"), (_, a, b, c, d) => {
    const called = a || d
    given[Object.keys(S.names).find((key) => S.names[key].split(" ").includes(called)) ?? called] = Number(b || c)
    return " "
  })
  let found = [...typed.matchAll(item)].map(([, label, it]) => [filler.includes(label) ? "" : label ?? "", it])
  let labels = found.map(([label]) => label)
  const rest = typed.replace(item, " ")
  const label = labels[0] || rest.replace(/^[ :,=]+|[ :,=]+$/g, "")
  const named = found.length && whole(S.one, found[0][1]) && /[_./]/.test(label) && name(label)
  if (named) return named
  const words = [...new Set([...labels.filter(Boolean), ...(rest.match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [])])].filter((word) => !filler.includes(word))
  if (found.length === 1 && words.length > 1) [labels, found] = [words, words.map(() => found[0])] // Q, K, V: (2, 5, 512)
  const letters = labels.map((it) => Object.keys(M.fit.letters).find((key) => M.fit.letters[key].split(" ").includes(it.toLowerCase())) ?? "")
  const many = labels.length > 1 && labels.every(Boolean)
  const ours = letters.every(Boolean) && labels.length > 1 && new Set(letters).size === letters.length
  const numbers = (words.length < 2 || many) && found.every(([, it]) => whole(S.one, it))
  if (!found.length || new RegExp(S.signs).test(rest + labels.join("")) || !(ours || numbers)) return undefined
  const axes = found.map(([, it]) => axesOf(it))
  const shortest = Math.min(...axes.map((each) => each.length)), signs = rest.split("@").length - 1
  if (signs || (!ours && many)) return shortest > 1 && axes.length === (signs || 1) + 1 ? product(axes, labels) : undefined
  if (ours || (axes.length === 3 && shortest > 2)) return attention(Object.fromEntries(axes.map((each, i) => [ours ? letters[i] : "QKV"[i], each])))
  return arrays(axes, given)
}

function axesOf(typed) {
  return typed.replace(new RegExp(M.shape.between, "g"), ",").match(/-?\w+|\?/g).map((axis, n) => {
    if (/^-?\d+$/.test(axis) && !(axis > 0 && axis < 1e9)) throw new Refused(put(M.shape.wrong, typed.trim(), n, axis))
    return /^\d+$/.test(axis) ? Number(axis) : ["None", "?"].includes(axis) ? null : axis
  })
}

const saidOf = (shape) => `(${shape.map((size) => size ?? "?").join(", ")}${shape.length === 1 ? "," : ""})`
const joined = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0])
const shapeCard = (given) => ({ ...empty, kind: "shape", ...given })

/** Whether Q, K and V fit, with their axes in the order in which most does. */
function attention(of) {
  of = Object.fromEntries([..."QKV"].filter((letter) => letter in of).map((letter) => [letter, of[letter]]))
  const F = M.fit, names = joined(Object.keys(of)), ranks = [...new Set(Object.values(of).map((each) => each.length))]
  const tried = ((ranks.length === 1 && F.orders[ranks[0]]) || []).map((order) => {
    const ordered = Object.entries(of).map(([letter, shape]) => [letter, order.map((axis) => shape[axis])])
    return { order, ...fits(Object.fromEntries(ordered)) }
  })
  const misfit = (wrong, letters = {}) => shapeCard({ title: put(F.misfit, names), letters, wrong, page: F.page })
  if (!tried.length) return misfit([put(F.axes, names, joined(ranks.map(String)))])
  const best = tried.reduce((a, b) => ("Q" in of && (b.wrong.length < a.wrong.length || (b.wrong.length === a.wrong.length && b.odd < a.odd)) ? b : a))
  const letters = Object.fromEntries(Object.entries(of).map(([letter, shape]) => [letter, saidOf(shape)]))
  if (best.wrong.length) return misfit(best.wrong, letters)
  let { title, says, scores, output } = best
  if (best !== tried[0]) {
    title = `${F.turned[best.order.length - 2]} ${title}`
    says = [...says, ...tried[0].wrong.map((it) => put(F.else, it))]
    output = best.order.map((axis) => output[axis])
  }
  if ("Q" in of) Object.assign(letters, { [F.scores]: saidOf(scores), [F.output]: saidOf(output) })
  return shapeCard({ title, says, letters, page: best.page })
}

/** What does not fit, whether it would be odd, what it is, and the shapes that come out. */
function fits(of) {
  const F = M.fit, wrong = []
  let k = of.K ?? of.V
  const q = of.Q ?? k, v = of.V ?? k
  const kind = !of.Q ? "pairs" : q.at(-2) === k.at(-2) ? "self" : "cross"
  const says = [put(F[kind], q.at(-2), k.at(-2))]
  if (q.at(-1) === k.at(-2) && q.at(-1) !== k.at(-1)) {
    wrong.push(put(F.transposed, saidOf(k)))
    k = [...k.slice(0, -2), k.at(-1), k.at(-2)]
  } else if (q.at(-1) !== k.at(-1)) wrong.push(put(F.width, q.at(-1), k.at(-1)))
  if (k.at(-2) !== v.at(-2)) wrong.push(put(F.values, k.at(-2), v.at(-2)))
  let page = F.pages[kind]
  q.slice(0, -2).forEach((a, n) => {
    const [b, c] = [k[n], v[n]], often = times(a, b)
    if (a !== b && n === 1 && often) {
      says.unshift(put(F.grouped, a, b, often))
      page = F.pages.grouped
    } else if (a !== b) wrong.push(put(F.lead, n, "Q", a, "K", b))
    if (b !== c) wrong.push(put(F.lead, n, "K", b, "V", c))
  })
  // More heads than words, and other words on each side: then the words come first.
  const many = [...q.slice(1, -2), k.at(-2)].filter(Number.isInteger)
  const odd = kind === "cross" && many.length === 2 && many[0] > many[1]
  return { wrong, odd, title: says[0], says: says.slice(1), scores: [...q.slice(0, -1), k.at(-2)], output: [...q.slice(0, -1), v.at(-1)], page }
}

/** How often a size has another; names of sizes divide each other, an unknown one is none. */
function times(a, b) {
  if (Number.isInteger(a) && Number.isInteger(b)) return a % b ? 0 : a / b
  return a && b ? `${a}/${b}` : 0
}

/** What a product of these gives, or where it breaks. */
function product(axes, labels) {
  const F = M.fit, names = axes.map((it, i) => `${labels[i]} ${saidOf(it)}`.trim())
  let made = axes[0]
  for (let i = 1; i < axes.length; i++) {
    const wrong = [], right = axes[i], [rows, columns] = right.slice(-2)
    if (made.at(-1) !== rows) {
      wrong.push(put(F.inner, names[i - 1], made.at(-1), names[i], rows))
      if (made.at(-1) === columns) wrong.push(put(F.turn, names[i], saidOf([...made.slice(0, -1), rows])))
    }
    const deep = Math.max(made.length, right.length) - 2
    const lead = (shape) => [...Array(deep + 2 - shape.length).fill(1), ...shape.slice(0, -2)]
    const left = lead(made), others = lead(right)
    left.forEach((a, n) => {
      const b = others[n]
      if (a === b || a === 1 || b === 1) return
      wrong.push(put(F.axis, n, a, b), ...(times(a, b) ? [put(F.repeat, times(a, b))] : []))
    })
    if (wrong.length) return shapeCard({ title: put(F.broken, names.join(" @ ")), wrong, page: F.page })
    made = [...left.map((a, n) => (a === 1 ? others[n] : a)), made.at(-2), columns]
  }
  return shapeCard({ title: put(F.product, names.join(" @ "), saidOf(made)), page: F.page })
}

/** What one array may be, or several in a row, at sizes that were given or that a model has. */
function arrays(found, given) {
  const S = M.shape, shown = found.map(saidOf)
  const [taken, model] = sizesOf(found, given)
  let says = found.length > 1 ? row(found, shown, taken?.d_model) : []
  const may = taken ? found.map((each) => candidates(each, taken)) : [[]]
  const [first] = may[0]
  if (!says.length && !first) says = [put(S.unknown, shown[0])]
  const title = says.shift() ?? put(S.may, shown[0], first.symbol, first.what)
  if (taken) says.push(put(S.taken, Object.entries(taken).map((size) => size.join(" = ")).join(", "), model ? `, as in ${model}` : ""))
  let letters = []
  if (found.length > 1) {
    if (taken) letters = may.map((each, i) => [shown[i], [...new Set(each.slice(0, 3).map(({ symbol }) => symbol))].join("; ")])
  } else {
    letters = may[0].slice(0, 6).map(({ symbol, convention, question }) => [`${symbol} ${convention}`.trim(), question])
    if (first) says.unshift(...byAxis(found[0], first.axes))
  }
  return shapeCard({ title, says, letters: Object.fromEntries(letters), page: S.page })
}

/** What each axis is; and of queries with heads, the scores. */
function byAxis(shape, axes) {
  const S = M.shape, said = [put(S.axes, axes.map((axis, i) => `${shape[i] ?? "?"} ${S.axis[axis] ?? `= ${axis}`}`).join("; "))]
  return same(axes.slice(-3), ["h", "n", "d_k"]) ? [...said, put(S.makes, saidOf([...shape.slice(0, -1), shape.at(-2)]))] : said
}

function sizesOf(found, given) {
  if ("d_model" in given) return [{ d_model: 0, h: Math.max(1, Math.floor(given.d_model / (given.d_k ?? 64))), ...given }, ""]
  for (const tells of [({ convention }) => convention, ({ known }) => /d_/.test(known), ({ known }) => known]) { // a weight tells most, then a width
    for (const model of M.model) {
      const { name, ...its } = model
      const sizes = { ...its, ...given }
      const first = found.map((each) => candidates(each, sizes)[0])
      if (first.every(Boolean) && first.some(tells)) return [sizes, sizes.h === its.h ? name : ""]
    }
  }
  return []
}

function row(found, shown, width) {
  if (found.some((each) => each.length !== 2 || each.includes(null))) return []
  const S = M.shape, said = []
  let fits = false
  for (const way of ["in, out", "out, in"]) {
    const maps = way === "in, out" ? found : found.map(([a, b]) => [b, a])
    const gap = maps.findIndex(([from], i) => i && from !== maps[i - 1][1])
    const names = [shown.slice(0, -1).join(", "), shown.at(-1), S[way]]
    if (gap < 0) {
      const one = [maps[0][0], maps.at(-1)[1]]
      said.unshift(put(S.fit, ...names, [maps[0][0], ...maps.map(([, to]) => to)].join(" → "), `(${(way === "in, out" ? one : one.reverse()).join(", ")})`))
      fits = true
    } else said.push(put(S.gap, ...names, gap, maps[gap - 1][1], gap + 1, maps[gap][0]))
  }
  const first = new Set(found.map(([from]) => from))
  if (!fits && first.size === 1 && (!width || first.has(width))) said.push(put(S.same, found[0][0]))
  return said
}

export function name(typed) {
  let said = typed.replace(/^[\w.]+ *= *(?=[\w.]+\()|:\d+$/g, "")
  said = /^([\w.]*Attention)\([^()]*\)$/.exec(said)?.[1] ?? said
  if (!/^[\w./:[\]"'-]{3,200}$/.test(said) || /^[A-Za-z]_\w{1,2}(\[\w\])?$/.test(said)) return undefined
  const dotted = `.${said.replace(/[[\]"':/]+/g, ".").replace(/^\.+|\.+$/g, "")}`
  for (const [stored, title, ways, page, more, hasParts] of T.names) {
    const own = stored.replaceAll("/", "."), short = own.replace(/\.[^.]*$/, "")
    const found = [own, ...(short.length > 3 ? [short] : [])].some((each) => dotted.endsWith(`.${each}`))
    if (!found && !(hasParts && `${dotted}.`.includes(`.${own}.`))) continue
    const letters = Object.fromEntries(ways.map(([each, shape, cut]) => [each, cut ? `${shape}, head i: ${cut}` : shape]))
    const crosses = new RegExp(M.name.crosses, "i").test(dotted)
    return { ...empty, kind: "name", title: put(title, said), letters, says: crosses ? [...more, M.name.cross] : more, page }
  }
}

/** What to say of what looks like a weight's name, and is none that is known. */
export function unknownName(typed) {
  if (!whole(M.name.like, typed)) return ""
  const parts = [...new Set(T.names.flatMap(([stored]) => stored.split(/[./]/)))]
  return [put(M.name.unknown, typed), ...alike(typed.split(/[./]/).filter((part) => !parts.includes(part)), parts)].join(" ")
}

/** Of each word the first that is known and one slip away, as a question. */
export function alike(words, all) {
  return words.map((word) => [word, all.find((each) => slip(word, each))]).filter(([, meant]) => meant).map(([word, meant]) => put(M.words.near, word, meant))
}

/** Whether two words are the same without one letter of each. */
function slip(a, b) {
  const short = (word) => [word, ...[...word].map((_, n) => word.slice(0, n) + word.slice(n + 1))]
  return Math.min(a.length, b.length) > 3 && short(a.toLowerCase()).some((each) => short(b.toLowerCase()).includes(each))
}

export function inWords(typed) {
  if (!new RegExp(M.words.sign).test(typed)) return /\p{L}{3,}/u.test(typed) || !/[A-Za-z]/.test(typed)
  const said = typed.replace(/"[^"]*"|'[^']*'/g, "").match(/(?<![\\\p{L}\p{N}_.])\p{L}{3,}(?![\p{L}\p{N}_(.])/gu) ?? []
  if (new RegExp(M.words.asks, "i").test(typed) && (said.length || typed.endsWith("?"))) return true
  return new Set(said.filter((word) => word.length > 3 && !known(word))).size > 2
}
