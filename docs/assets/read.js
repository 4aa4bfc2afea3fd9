// Which Q? — what was typed, read: whose letters it has, and which Q stands in it. It is the room
// src/qkv/reading again, and goes by the same data; a test compares the two.

import { alike, empty, error, inWords, name, prepare as prepareOthers, shapes, unknownName } from "./others.js"
import { knownWords, parse, prepare as prepareTree, put, Refused, same, walk, whole } from "./tree.js"

export { Refused }

const MANY = 64 // assignments of one kind that are tried
const CARDS = 3
const MOST = 2000 // characters
const INDEX = "0123456789ijhnmtspg"
const FORMS = { activation: ["{}[i]", "X_{}", "{}"], weight: ["W_{}[i]", "W_{}"], bias: ["b_{}[i]"] }
const OURS = /(^|_)[QKV](\[i\]|$)|QKV|^W\[i\]$|^[WC]_.*[QKVO]/
let D, M, T

/** What reading goes by: the build writes it from the data of qkv.reading. */
export function prepare(given) {
  D = given.data
  M = given.messages
  T = given
  prepareTree(D)
  prepareOthers(given)
}

const turned = (role) => (role.endsWith(".T") ? role.slice(0, -2) : role && `${role}.T`)
const bare = (role) => role.replace(/\.T$/, "")
const vectors = (a, b) => [[a, b], [b, a]].flatMap(([one, two]) => [one, turned(one)].flatMap((x) => [[x, two], [x, turned(two)]]))
const chain = (node) => (["mul", "dot"].includes(node?.[0]) ? node.slice(1).flatMap(chain) : [node])
const marksOf = (leaf) => leaf.split("|")[1]

function isNumber(node) {
  if (node?.[0] === "leaf") return /^(scal(e|ing)|factor|norm_factor|tau)\|/.test(node[1])
  return !node || ["num", "sqrt"].includes(node[0]) || (node[0] === "div" && isNumber(node[1]))
}

function sizeOf(node) {
  for (const each of walk(node)) {
    if (each[0] === "leaf") return Object.keys(D.sizes).find((size) => whole(D.sizes[size], each[1].toLowerCase())) ?? ""
    if (each[0] === "num" && /^\d+$/.test(each[1])) return each[1]
  }
  return ""
}

function near(typed, theirs, indexed, one, token) {
  const [[base, marks], [theirBase, theirMarks]] = [typed.split("|"), theirs.split("|")]
  if (base !== theirBase && !(one && base.length === 1 && base.toLowerCase() === theirBase.toLowerCase())) return undefined
  let off = +(base !== theirBase)
  const rest = [...marks]
  for (const mark of theirMarks) {
    const other = mark === mark.toLowerCase() ? mark.toUpperCase() : mark.toLowerCase()
    const found = rest.includes(mark) ? mark : other
    if (!rest.includes(found)) return undefined
    rest.splice(rest.indexOf(found), 1)
    off += found !== mark
  }
  if (rest.length > 1 + token || rest.some((mark) => !INDEX.includes(mark))) return undefined
  if (indexed || !rest.length) return off + (indexed && !rest.length)
  return token ? off + 2 * !one : undefined
}

/** All choices of one of each, the last changing fastest; no more than are tried. */
function choices(options) {
  let found = [[]]
  for (const option of options) found = found.flatMap((chosen) => option.map((each) => [...chosen, each])).slice(0, MANY)
  return found
}

function inText(leaves, text) {
  const options = leaves.map((leaf) => {
    const fits = {}
    for (const [key, theirs, indexed] of text.letters) {
      const { group } = T.role[key]
      const off = near(leaf, theirs, indexed, text.one, !["weight", "size"].includes(group))
      if (group !== "size" && off !== undefined) fits[text.columns && !text.upright.includes(key) ? turned(key) : key] = off
    }
    return Object.keys(fits).length ? Object.entries(fits) : [["", 0]]
  })
  return choices(options).map((chosen) => [
    Object.fromEntries(leaves.map((leaf, i) => [leaf, chosen[i][0]])), chosen.reduce((sum, [, off]) => sum + off, 0)])
}

function usual(leaf) {
  const [base, marks] = leaf.toLowerCase().split("|")
  const both = [marks, [...marks].filter((mark) => !INDEX.includes(mark)).join("")].map((part) => `${base}|${part}`)
  const fits = (pattern) => both.some((each) => whole(pattern, each))
  const found = T.usual.find(([, , pattern]) => fits(pattern))
  return found ? { kind: found[0], letter: found[1] } : Object.entries(D.other).flatMap(([pattern, may]) => (fits(pattern) ? may : []))
}

function everybody(leaves) {
  const meant = Object.fromEntries(leaves.map((leaf) => [leaf, usual(leaf)]))
  const indexed = (leaf) => [...marksOf(leaf)].some((mark) => INDEX.includes(mark))
  const forms = (kind) => (Object.values(meant).some((each) => each.kind === kind) ? FORMS[kind] : [""])
  const weights = leaves.some((leaf) => leaf.includes("()")) ? [...forms("weight")].reverse() : forms("weight")
  const others = Object.entries(meant).filter(([, may]) => may.length).map(([leaf, may]) => may.map((role) => [leaf, role]))
  return weights.flatMap((weight, n) => forms("activation").flatMap((act, m) => choices(others).map((chosen) => {
    const roles = Object.fromEntries(chosen)
    for (const [leaf, { kind, letter }] of Object.entries(meant)) {
      if (!kind) continue
      const twin = leaves.some((it) => same(meant[it], meant[leaf]) && indexed(it) !== indexed(leaf))
      let form = { activation: act, weight }[kind] ?? FORMS[kind][0]
      if (kind === "weight" && (indexed(leaf) || twin)) form = indexed(leaf) ? "W_{}[i]" : "P_{}"
      else if (kind === "activation" && twin) form = indexed(leaf) ? "{}[i]" : "X_{}"
      roles[leaf] = put(form, letter)
    }
    return [roles, 3 * n + m]
  })))
}

/** One choice of a role for each letter: it computes trees with roles and names of sizes. */
class World {
  constructor(roles, shown, columns) {
    Object.assign(this, { roles, shown, columns, names: [], loose: 0, steps: 0, faults: new Map(), notes: new Map(), near: false, open: false })
  }

  fault(name, ...said) { this.faults.set(put(D.faults[name], ...said), name) }

  of(role) {
    const shape = (T.role[bare(role)]?.shape ?? []).map((size) => size.replace(/n_[qk]\b/, "n"))
    return [role, role.endsWith(".T") ? shape.reverse() : shape]
  }

  value(node) {
    const [kind, ...parts] = node ?? ["num"]
    if (kind === "leaf") return this.of(this.roles[parts[0]] ?? "")
    if (kind === "mul" || kind === "dot") {
      return this.product(chain(node).filter((it) => !isNumber(it)).map((it) => [this.value(it), this.said(it)]), kind)
    }
    if (kind === "div") {
      const [root, size] = [parts[1]?.[0] === "sqrt", sizeOf(parts[1])]
      const name = root && size === "d_model" ? "scale" : !root && size ? "root" : ""
      if (name) this.notes.set(put(D.notes[name], this.said(parts[1]).replace(/^√+|√+$/g, "")), name)
      return this.value(parts[0])
    }
    if (kind === "fn") return this.applied(...parts)
    const values = parts.filter(Array.isArray).map((part) => this.value(part))
    const first = values[0] ?? ["", []]
    if (kind === "t") return [turned(first[0]), [...first[1]].reverse()]
    if (kind === "add") {
      if (first[1].length === 2 && values[1][1].length === 2 && !same(first[1], values[1][1])) this.fault("add", this.said(parts[0]), this.said(parts[1]))
      return first[0] ? first : values[1]
    }
    if (kind === "shape") {
      parts.slice(1).map(sizeOf).forEach((size, i) => (this.loose += Boolean(size) && i < first[1].length && size !== first[1][i]))
      return first
    }
    if (kind === "eq" && parts[1][0] === "part" && ["Q", "W_Q"].includes(values[1][0]) && /^(W_)?[QKV]$/.test(bare(first[0]))) values[1] = first
    if (kind === "wrong") this.fault(...parts.slice(1))
    if (["cut", "join", "part"].includes(kind)) return this.moved(kind, first)
    return kind === "eq" ? this.equal(values) : kind === "wrong" ? first : ["", []]
  }

  moved(kind, value) {
    const role = bare(value[0])
    const cut = kind === "cut" && ["Q", "K", "V"].includes(role)
    const made = cut ? `${role}[i]` : { "part QKV": "Q", "part W_QKV": "W_Q", "join head[i]": "heads" }[`${kind} ${role}`]
    this.steps += Boolean(made)
    this.loose += kind === "cut" && !made
    return made ? this.of(value[0].endsWith(".T") ? `${made}.T` : made) : value
  }

  equal(values) {
    let [first, ...others] = values
    for (const other of others) {
      const pair = [bare(first[0]), bare(other[0])]
      const [a, b] = pair.map((role) => /(?:^|_)([QKV])(?:\[i\])?$/.exec(role)?.[1])
      const upright = pair[0] === pair[1] && ["score", "output"].includes(T.role[pair[0]]?.group)
      const both = pair[0] && pair[1]
      if (both && first[0] !== other[0] && !upright && !["X X_Q", "Y heads"].includes([...pair].sort().join(" "))) {
        if (a && b && a !== b) this.fault("letters", a, b)
        else this.fault("equal", this.meaning(first[0], pair), this.meaning(other[0], pair))
      } else if (first[1].length && other[1].length && !same(first[1], other[1]) && !upright) {
        this.fault("equal", first[1].join(" × "), other[1].join(" × "))
      }
      this.loose += !both
      if (!first[0]) first = other
    }
    return first
  }

  meaning(role, pair) {
    const said = T.role[bare(role)]?.meaning ?? role
    return pair[0] === pair[1] && role.endsWith(".T") ? `${said}, transposed` : said
  }

  product(row, kind) {
    while (row.length > 1) {
      const made = row.slice(1).map((_, n) => this.step(row[n][0][0], row[n + 1][0][0], kind))
      const n = Math.max(0, made.findIndex(Boolean))
      const [[a, left], [b, right]] = row.slice(n, n + 2)
      this.steps += Boolean(made[n])
      if (a[0] !== b[0] && bare(a[0]) === "X" && bare(b[0]) === "X") this.notes.set(D.notes.toy, "toy")
      row.splice(n, 2, [made[n] ? this.of(made[n]) : this.unknown(a, b, left, right), `${left} ${right}`])
    }
    return row[0]?.[0] ?? ["", []]
  }

  step(a, b, kind) {
    if (kind === "mul" || !a || !b) return T.steps[`${a} ${b}`] ?? ""
    return vectors(a, b).map(([x, y]) => T.steps[`${x} ${y}`] ?? ".T").find((role) => !role.endsWith(".T")) ?? ""
  }

  unknown(a, b, left, right) {
    this.loose++
    if (a[1].length !== 2 || b[1].length !== 2) return ["", []]
    if (a[1][1] !== b[1][0]) {
      const fits = vectors(a[0], b[0]).slice(0, 4).find(([x, y]) => `${x} ${y}` in T.steps)
      const mended = fits && `${left}${fits[0] === a[0] ? "" : "ᵀ"} ${right}${fits[1] === b[0] ? "" : "ᵀ"}`
      const hint = `${b[0]} ${a[0]}` in T.steps ? D.faults.side : mended ? put(D.faults.turn, mended) : ""
      this.near ||= Boolean(hint)
      this.faults.set(`${put(D.faults.meet, left, right, a[1][1], b[1][0])} ${hint}`.trim(), "meet")
    }
    return ["", [a[1][0], b[1][1]]]
  }

  applied(name, ...nodes) {
    const values = nodes.map((node) => this.value(node))
    const [role, shape] = values[0] ?? ["", []]
    const flip = role.endsWith(".T") ? ".T" : ""
    if (name === "softmax") {
      this.steps++
      if (shape.some((size) => size !== "n")) {
        this.loose++
        this.fault("scores", this.said(nodes[0]))
      }
      return this.of(`A[i]${flip}`)
    }
    if (name === "attention" || name === "multihead") {
      this.steps++
      values.slice(0, 3).forEach(([got], i) => {
        const fits = name === "attention" ? [`${"QKV"[i]}[i]`] : ["X", "X_Q", "X_K", "X_V"]
        this.loose += Boolean(got) && !fits.includes(bare(got))
      })
      return this.of((name === "attention" ? "head[i]" : "Y") + flip)
    }
    return name === "concat" && bare(role) === "head[i]" ? this.of(`heads${flip}`) : [role, shape]
  }

  said(node) {
    const [kind, ...parts] = node ?? ["num", "…"]
    const said = parts.filter(Array.isArray).map((part) => this.said(part))
    if (kind === "leaf") return this.shown[parts[0]] ?? parts[0].split("|")[0]
    if (kind === "t") return parts[0][0] === "leaf" ? `${said[0]}ᵀ` : `(${said[0]})ᵀ`
    if (kind === "fn") return `${parts[0]}(${said.join(", ")})`
    const sign = { mul: " ", dot: " · ", add: " + ", div: " / ", eq: " = " }[kind]
    return sign ? said.join(sign) : (kind === "sqrt" ? "√" : "") + (said[0] ?? parts[0] ?? "")
  }

  /** A tree as a line in roles, with words as rows; `write` says how a role, a root and a sign look. */
  line(node, flip, write = NUMPY) {
    const [kind, ...parts] = node ?? ["num", "1"]
    const said = parts.filter(Array.isArray).map((part) => this.line(part, flip !== (kind === "t"), write))
    const first = said[0] ?? write.plain(String(parts[0] ?? ""))
    if (kind === "leaf") {
      const [base, marks] = parts[0].split("|")
      const heads = [...marks].filter((n) => /[1-9]/.test(n) && this.heads().includes(n))
      const role = (this.roles[parts[0]] ?? "").replace("[i]", heads.length === 1 ? `[${heads[0]}]` : "[i]")
      return role ? write.role(flip ? turned(role) : role) : write.plain(base)
    }
    if (kind === "mul" || kind === "dot") {
      const numbers = parts.map(isNumber)
      if (numbers.some(Boolean)) return said[+numbers[0]]
      const roles = parts.map((part) => this.value(part)[0])
      const pair = kind === "dot" && roles.every(Boolean) && vectors(...roles).find(([x, y]) => `${x} ${y}` in T.steps)
      if (pair) return pair.map(write.role).join(write.times)
      let [left, right] = flip ? [...said].reverse() : said
      const [a, b] = (flip ? [...parts].reverse() : parts).map(([each]) => each)
      if (a === "add") left = `(${left})`
      return left + write.times + (["add", "mul", "dot", "div"].includes(b) ? `(${right})` : right)
    }
    if (kind === "div") return first + write.over(sizeOf(parts[1]) || "d_k", parts[1]?.[0] === "sqrt")
    if (kind === "fn") {
      return parts[0] === "concat" ? `concat(${first.replace(/\[\d\]/g, "[i]")} for i in heads)` : `${parts[0]}(${said.join(", ")})`
    }
    if (kind === "eq") return said.join(parts[0][0] === "leaf" && !said[0].endsWith(".T") ? " = " : write.equal)
    return kind === "add" ? said.join(" + ") : first
  }

  heads() { return Object.entries(this.roles).filter(([, role]) => role[0] === "W").map(([leaf]) => marksOf(leaf)).join("") }
}

const NUMPY = { role: (role) => role, plain: (said) => said, times: " @ ", equal: " == ", over: (size, root) => (root ? ` / sqrt(${size})` : ` / ${size}`) }

const before = (a, b) => {
  const n = a.findIndex((each, i) => each !== b[i])
  return n < 0 ? 0 : a[n] - b[n]
}

function fit(lines, shown, code) {
  const every = lines.flatMap(walk)
  const sizes = every.flatMap((each) => ({ div: [each[2]], sqrt: [each], shape: each.slice(2) })[each[0]] ?? [])
  const below = new Set(sizes.flatMap(walk).filter(([kind]) => kind === "leaf").map(([, leaf]) => leaf))
  const leaves = [...new Set(every.filter((each) => each[0] === "leaf" && !below.has(each[1]) && !isNumber(each)).map(([, leaf]) => leaf))]
  const tried = code ? [] : Object.entries(T.texts).flatMap(([name, text]) => inText(leaves, text).map(([roles, off]) => [roles, text.columns, name, off, 0]))
  for (const [roles, kind] of everybody(leaves)) {
    for (const columns of [false, true]) for (const stored of [false, true]) {
      const flips = (leaf, role) => columns !== (stored && /^(W_|P_|W\[)/.test(role) && !leaf.includes("()"))
      tried.push([Object.fromEntries(Object.entries(roles).map(([leaf, role]) => [leaf, flips(leaf, role) ? turned(role) : role])), columns, "", 50, 6 * stored + kind])
    }
  }
  const unknownIn = (roles) => leaves.filter((leaf) => !roles[leaf]).length
  const fewest = Math.min(...tried.map(([roles]) => unknownIn(roles)))
  const worlds = tried.filter(([roles]) => unknownIn(roles) === fewest).map(([roles, columns, name, off, kind]) => {
    const world = new World(Object.fromEntries(leaves.map((leaf) => [leaf, roles[leaf] ?? ""])), shown, columns)
    world.results = lines.map((line) => world.value(line))
    world.key = [fewest, world.faults.size, world.loose, -world.steps, off, kind, +columns]
    world.names = name && !fewest ? [name] : []
    return world
  }).sort((a, b) => before(a.key, b.key))
  const found = new Map()
  for (const world of worlds) {
    if (before(world.key.slice(0, 3), worlds[0].key)) break
    world.lines = lines.map((line) => world.line(line, world.columns))
    const said = `${world.lines.join("; ")} ${world.columns}`
    if (!found.has(said)) found.set(said, world)
    else if (same(found.get(said).key.slice(0, 5), world.key.slice(0, 5))) found.get(said).names.push(...world.names)
  }
  return [...found.values()]
}

function isAttention(world) {
  const roles = Object.values(world.roles).filter(Boolean).map(bare)
  const unknown = Object.keys(world.roles).length - roles.length
  const faults = [...world.faults.values()]
  const ours = [...roles, ...world.results.map(([role]) => bare(role))].some((role) => OURS.test(role))
    || /(attention|multihead|softmax)\(/.test(world.lines.join(" ")) || [...world.notes.values()].includes("toy")
  const steps = world.steps || world.near || faults.includes("view") || !(world.loose || faults.length)
  return steps && ours && unknown <= (world.steps && !faults.length ? Math.floor(roles.length / 2) : 0)
}

const KINDS = [..."QKV"].flatMap((letter) => [["source", `X_${letter}`], ["head", `${letter}[i]`], ["packed", letter]])
  .concat([["fused", "QKV"], ["latent", "C_Q"], ["latent", "C_KV"], ["source", "X"]])

function letterSaid(leaf, role) {
  const heads = marksOf(leaf).match(/\d/g) ?? []
  return heads.length === 1 && role[0] === "W" ? T.role[role].says.replaceAll("one head's", `head ${heads[0]}'s`) : T.role[role].says
}

function card(world, lines) {
  const { shown } = world
  const roles = Object.entries(world.roles).map(([leaf, role]) => [leaf, bare(role)])
  const has = new Set(roles.map(([, role]) => role))
  const [which, wanted] = KINDS.find(([, role]) => has.has(role)) ?? ["", ""]
  const weight = roles.find(([, role]) => role && "WPM".includes(role[0]))
  const [leaf, role] = which ? roles.find(([, each]) => each === wanted) : weight ?? ["", ""]
  const kind = which || (weight ? "weight" : "none")
  const letter = shown[leaf] ?? ""
  const result = bare(world.results.at(-1)[0])
  let gives = result in T.role && !has.has(result) ? T.role[result].meaning : ""
  let title = put(D.which[kind], letter, T.base)
  if (role === "X" && gives) [title, gives] = [put(D.which.made, letter, gives), ""]
  if (role.startsWith("W_O")) title = put(D.which.output, letter)
  const inputs = Object.values(Object.fromEntries(roles.filter(([, each]) => each === "X").map(([each]) => [each.split("|")[0], shown[each]])))
  const two = inputs.length === 2 ? [put(D.notes.two, ...inputs)] : []
  const tokens = world.open ? "open" : world.columns ? "columns" : "rows"
  const remarks = world.names.filter((name) => name in D.remark).map((name) => D.remark[name])
  const reasons = [...world.faults.values(), ...world.notes.values(), ...world.names, ...roles.map(([, each]) => each), kind]
  return {
    ...empty, kind: "formula", title, which: kind, tokens, texts: world.names.map((name) => T.texts[name].where),
    letters: Object.fromEntries(roles.filter(([, each]) => each).map(([each, its]) => [shown[each], letterSaid(each, its)])),
    wrong: [...world.faults.keys()], says: [...(gives ? [put(D.which.result, gives)] : []), D.which[tokens], ...world.notes.keys(), ...two, ...remarks],
    line: world.faults.size || two.length ? "" : world.lines.join("; "), page: D.page[reasons.find((reason) => reason in D.page)],
    write: (columns, how) => lines.map((line) => world.line(line, world.columns !== columns, how)),
  }
}

function formulas(typed) {
  const { lines, shown, left, code } = parse(typed)
  const size = lines.length === 1 && lines[0][0] === "leaf" && sizeOf(lines[0])
  if (size) {
    const title = put(D.which.size, shown[lines[0][1]], T.role[size].meaning, T.base[size])
    return [[{ ...empty, kind: "formula", title, which: "size", page: D.page.size }], left]
  }
  const [first, ...worlds] = lines.length ? fit(lines, shown, code) : []
  if (!first || !isAttention(first)) return [[], left]
  const kept = new Map()
  for (const world of [first, ...worlds]) {
    const roles = JSON.stringify(Object.values(world.roles).map(bare))
    if (kept.size && first.faults.size) break
    if (kept.has(roles) && same(kept.get(roles).key.slice(0, -1), world.key.slice(0, -1))) kept.get(roles).open = true
    if (kept.size < CARDS && !kept.has(roles)) kept.set(roles, world)
  }
  const unknown = Object.entries(first.roles).filter(([, role]) => !role).map(([leaf]) => shown[leaf])
  return [[...kept.values()].map((world) => card(world, lines)), [...left, ...unknown]]
}

/** What was typed: its readings, the likeliest first, and why there is none or what decides. */
export function read(text) {
  const typed = text.replace(new RegExp(M.words.marks, "g"), "").trim()
  if (!typed) throw new Refused(D.refused.empty)
  const length = [...typed].length
  if (length > MOST) throw new Refused(put(D.refused.long, length, MOST))
  for (const attempt of [error, shapes, name]) {
    const reading = attempt(typed)
    if (reading) return { readings: [reading], says: "", unread: [] }
  }
  const isError = new RegExp(M.words.error).test(typed)
  const said = isError ? M.words.message : unknownName(typed)
  if (said || inWords(typed)) return { readings: [], says: said, unread: [], words: !said }
  const [readings, left] = formulas(typed)
  const unread = [...new Set(left)]
  const kinds = readings.slice(0, 2).map(({ which }) => which).sort().join(" ")
  const decides = readings.length > 1 && kinds in D.which ? put(D.which.decides, D.which[kinds]) : ""
  return { readings, unread, says: !readings.length ? put(D.refused.formula, typed) : unread.length ? [put(D.refused.unread, unread.join(", ")), ...alike(unread, knownWords())].join(" ") : decides }
}
