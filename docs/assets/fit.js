// Which Q? — whose letters a tree fits, which role each has there, and what they are together. It is
// _letters.py and _fit.py of src/qkv/reading again, and goes by the same data; a test compares them.

import { leavesOf, put, same, whole } from "./tree.js"

const MANY = 64 // assignments of one kind that are tried
const MOST = 300 // assignments that are computed
const NUMBER = "#"
let D, T

export function prepare(given) {
  D = given.data
  T = given
}

export const turned = (role) => (role.endsWith(".T") ? role.slice(0, -2) : role && `${role}.T`)
export const bare = (role) => role.replace(/\.T$/, "")
export const marksOf = (leaf) => leaf.split("|")[1]
const letterOf = (role) => /(?:^|_)([QKV])(?:\[i\])?$/.exec(bare(role))?.[1] ?? ""
const joined = (role) => ({ "head[i]": "joined", "Q[i]": "Q", "K[i]": "K", "V[i]": "V" })[bare(role)] ?? ""
const meet = (a, b) => a === b || ["n_q", "n_k"].some((n) => [a, b].every((each) => ["n", n, "1"].includes(each)))
const alike = (a, b) => a.length === b.length && a.every((size, i) => meet(size, b[i]))
const isIndex = (mark) => D.token.index.includes(mark)

/** The size that a letter is, or the name of a scale. */
export function number(leaf) {
  const size = Object.keys(D.sizes).find((each) => whole(D.sizes[each], leaf.toLowerCase()))
  return size ?? (whole(D.token.scale, leaf) ? leaf.split("|")[0] : "")
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
  if (rest.length > 1 + token || !rest.every(isIndex)) return undefined
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

/** A letter without the number of a word: x_1 and x_2 are words of one source, X_1 is another. */
export const sourceOf = (leaf) => (/^[^a-z|]+\|/.test(leaf) ? leaf : leaf.split("|")[0] + [...marksOf(leaf)].filter((mark) => !isIndex(mark)).join(""))

/** What everybody else means by a letter: a kind and Q, K or V, or the roles it may have. */
export function usual(leaf) {
  const [base, marks] = leaf.toLowerCase().split("|")
  const both = [marks, [...marks].filter((mark) => !isIndex(mark)).join("")].map((part) => `${base}|${part}`)
  const fits = (pattern) => both.some((each) => whole(pattern, each))
  const found = T.usual.find(([, , pattern]) => fits(pattern))
  return found ? { kind: found[0], letter: found[1] } : Object.entries(D.other).flatMap(([pattern, may]) => (fits(pattern) ? may : []))
}

function everybody(leaves) {
  const meant = Object.fromEntries(leaves.map((leaf) => [leaf, usual(leaf)]))
  const indexed = (leaf) => [...marksOf(leaf)].some(isIndex)
  const forms = (kind) => (Object.values(meant).some((each) => each.kind === kind) ? D.forms[kind] : [""])
  const weights = leaves.some((leaf) => leaf.includes("()")) ? [...forms("weight")].reverse() : forms("weight")
  const others = Object.entries(meant).filter(([, may]) => may.length).map(([leaf, may]) => may.map((role) => [leaf, role]))
  return weights.flatMap((weight, n) => forms("activation").flatMap((act, m) => choices(others).map((chosen) => {
    const roles = Object.fromEntries(chosen)
    const bias = D.forms.bias[Math.max(0, D.forms.weight.indexOf(weight))]
    for (const [leaf, { kind, letter }] of Object.entries(meant)) {
      if (!kind) continue
      const twin = leaves.some((it) => same(meant[it], meant[leaf]) && indexed(it) !== indexed(leaf) && it[0] === leaf[0])
      let form = { activation: act, weight, bias }[kind]
      if (kind === "weight" && (indexed(leaf) || twin)) form = indexed(leaf) ? "W_{}[i]" : "P_{}"
      else if (kind === "activation" && twin) form = indexed(leaf) ? "{}[i]" : "X_{}"
      roles[leaf] = put(form, letter)
    }
    return [roles, 3 * n + m]
  })))
}

/** How a line is written in NumPy. */
const NUMPY = {
  role: (role) => role, size: (size) => size, root: (said) => `sqrt(${said})`, times: " @ ", equal: " == ",
  turned: (line) => line && `${line}.T`,
}

/** A role, the names of its sizes, and what writes it: as typed, and in NumPy both ways round. */
class Value {
  constructor(role = "", shape = [], typed = "", line = "", turn = "", free = false) {
    Object.assign(this, { role, shape, typed, line, turn, free })
  }

  with(more) { return Object.assign(new Value(), this, more) }
  get unread() { return this.with({ line: "", turn: "" }) }
  get upright() { return this.role.endsWith(".T") ? this.other : this }
  get both() { return this.free || this.shape.includes("1") ? [this, this.other] : [this] }

  get other() {
    const typed = this.typed.includes(" ") ? `(${this.typed})` : this.typed
    return new Value(turned(this.role), [...this.shape].reverse(), typed.endsWith("ᵀ") ? typed.slice(0, -1) : `${typed}ᵀ`, this.turn, this.line, this.free)
  }

  scaled(sign, number) {
    const [line, turn] = [this.line, this.turn].map((each) => each && wrapped(each) + sign + wrapped(number.line, "+@*/"))
    return this.with({ typed: this.typed + sign + number.typed, line, turn })
  }
}

/** A line in brackets, if one of these signs stands in it outside of brackets. */
function wrapped(line, signs = "+") {
  let plain = line
  for (let before; before !== plain;) [before, plain] = [plain, plain.replace(/[([][^()[\]]*[)\]]/g, "")]
  return new RegExp(` [${signs}] `).test(plain) ? `(${line})` : line
}

/** One choice of a role for each letter: it computes trees with roles and names of sizes. */
export class World {
  constructor(lines, roles, shown, columns, code, one, write = NUMPY) {
    Object.assign(this, { roles, shown, columns, code, one, write, names: [], loose: 0, steps: 0, near: false, open: false, ours: false })
    Object.assign(this, { faults: new Map(), notes: new Map(), made: {}, read: new Set() })
    this.results = lines.map((line) => this.value(line))
  }

  /** In roles; empty where a line is not read whole. */
  lines(columns = false) {
    return this.loose ? [""] : this.results.map((it) => this.natural(it)[columns ? "turn" : "line"])
  }

  /** With words as rows: what was written so stays, and one vector has no side. */
  natural(value) {
    if (!value.role) return this.columns && value.shape[0] !== "n_q" ? value.other : value
    return this.columns || value.shape.includes("1") ? value.upright : value
  }

  fault(name, ...said) { this.faults.set(put(D.faults[name], ...said), name) }
  note(name, ...said) { this.notes.set(put(D.notes[name], ...said), name) }

  of(role, typed = "", line = bare(role)) {
    const shape = T.role[bare(role)]?.shape ?? []
    const said = this.write.role(line)
    const value = new Value(bare(role), shape, typed, said, shape.length > 1 ? this.write.role(turned(line)) : said)
    return role.endsWith(".T") ? value.other.with({ typed }) : value
  }

  value(node) {
    const [kind, ...parts] = node ?? ["num", "…"]
    if (kind === "num") return new Value(NUMBER, [], parts[0], parts[0], parts[0])
    if (kind === "leaf") return this.leaf(parts[0])
    if (kind === "eq") return this.equal(parts)
    if (kind === "call" && this.roles[parts[0][1]]) return this.value(["mul", parts[1], parts[0]])
    if (kind === "sum" && parts[0]?.[0] === "mul") return this.summed(this.value(["dot", ...parts[0].slice(1)]))
    const values = parts.filter((part) => part === undefined || Array.isArray(part)).map((part) => this.value(part))
    const first = values[0] ?? new Value()
    if (kind === "sqrt" && first.role === NUMBER && first.line) {
      const line = this.write.root(first.line)
      return new Value(NUMBER, [], `√${first.typed}`, line, line)
    }
    if (kind === "mul" || kind === "dot") return this.product(values, kind === "dot")
    if (kind === "add") return this.added(...values)
    if (kind === "div") return this.ratio(...values)
    if (kind === "fn") return this.applied(parts[0], values)
    if (["cut", "join", "part"].includes(kind)) return this.moved(kind, first)
    if (kind === "t") return first.other
    if (kind === "free") return first.with({ free: true })
    if (kind === "shape") {
      parts.slice(1).map(number).forEach((size, i) => (this.loose += Boolean(size) && i < first.shape.length && size !== first.shape[i]))
      return first
    }
    if (kind === "swap") return bare(first.role) === "head[i]" || parts[0][1] in this.made ? first : first.with({ free: true })
    if (kind === "note") this.note(...parts.slice(1))
    if (kind === "wrong") this.fault(...parts.slice(1))
    if (["pass", "note", "wrong"].includes(kind)) return first.unread
    this.loose++
    return new Value("", [], first.typed)
  }

  leaf(leaf) {
    const typed = this.shown[leaf] ?? leaf.split("|")[0]
    const size = number(leaf)
    if (size) return new Value(NUMBER, [], typed, this.write.size(size), this.write.size(size))
    if (leaf in this.made) return this.made[leaf]
    this.read.add(leaf)
    const role = this.roles[leaf] ?? ""
    const heads = [...marksOf(leaf)].filter((n) => /[1-9]/.test(n) && this.heads().includes(n))
    let value = role ? this.of(role, typed, heads.length === 1 ? bare(role).replace("[i]", `[${heads[0]}]`) : bare(role)) : new Value("", [], typed)
    if (this.one.has(leaf)) {
      this.note("one", typed)
      value = value.with({ shape: value.shape.map((size) => size.replace(/n_./g, "1")) })
    }
    return value
  }

  heads() { return Object.entries(this.roles).filter(([, role]) => role[0] === "W").map(([leaf]) => marksOf(leaf)).join("") }

  product(values, dot) {
    let numbers = values.filter(({ role }) => role === NUMBER)
    const row = values.filter(({ role }) => role !== NUMBER)
    while (row.length > 1) {
      const made = row.slice(1).map((b, n) => this.step(row[n], b, dot))
      const n = Math.max(0, made.findIndex(Boolean))
      this.steps += Boolean(made[n])
      row.splice(n, 2, this.times(...(made[n] ?? this.unknown(row[n], row[n + 1]))))
    }
    let [value] = row
    if (!value) [value, ...numbers] = numbers
    for (const scale of numbers) {
      if (bare(value.role) === "S[i]" && /^(sqrt|d_)/.test(scale.line)) this.fault("times", scale.typed)
      value = value.scaled(" * ", scale)
    }
    return value
  }

  step(a, b, dot) {
    const ways = (as, bs) => as.flatMap((x) => bs.map((y) => [x, y]))
    let pairs = ways(a.both, b.both)
    if (dot) pairs = ways([a, a.other], [b, b.other]).flatMap((pair, _, all) => (pair === all[0] ? [...all, ...all.map(([x, y]) => [y, x])] : []))
    const found = pairs.map(([x, y]) => [T.steps[`${x.role} ${y.role}`] ?? "", x, y]).filter(([made]) => made && !(dot && made.endsWith(".T")))[0]
    if (found && found[1].role !== found[2].role && found.slice(1).every(({ role }) => bare(role) === "X")) this.note("toy")
    return found
  }

  times(role, a, b) {
    const shape = a.shape.length === 2 && b.shape.length === 2 ? [a.shape[0], b.shape[1]] : []
    const all = shape.length && a.line && b.line
    return new Value(role, shape, `${a.typed} ${b.typed}`,
      all ? wrapped(a.line) + this.write.times + wrapped(b.line, "+*/") : "", all ? wrapped(b.turn) + this.write.times + wrapped(a.turn, "+*/") : "")
  }

  unknown(a, b) {
    this.loose += 1 + (a.role.includes("X_") && b.role.includes("X_"))
    if (a.shape.length !== 2 || b.shape.length !== 2) return ["", a, b]
    const core = [a, b].map(({ role }) => role.replace(/^(?:X_)?([QKV])(\[i\])?(?=$|\.)/, "$1[i]")).join(" ")
    const other = core.replace(/[KV]/g, (each) => (each === "K" ? "V" : "K"))
    if (other in T.steps && !(core in T.steps)) {
      const wrong = [b, a].find(({ role }) => "KV".includes(letterOf(role) || "?"))
      this.fault("swap", wrong.typed, letterOf(wrong.role) === "K" ? "V" : "K")
    } else if (!this.faults.has(D.faults.keys) && !a.both.some((x) => b.both.some((y) => meet(x.shape[1], y.shape[0])))) {
      const [x, y] = [a, a.other].flatMap((one) => [[one, b], [one, b.other]]).find(([one, two]) => `${one.role} ${two.role}` in T.steps) ?? []
      const keys = x && [[a, x], [b, y]].some(([was, is]) => was.role !== is.role && bare(is.role) === "A[i]")
      const hint = `${b.role} ${a.role}` in T.steps ? D.faults.side : keys ? D.faults.keys : x ? put(D.faults.turn, `${x.typed} ${y.typed}`) : ""
      this.near ||= Boolean(hint)
      this.faults.set(`${put(D.faults.meet, a.typed, b.typed, a.shape[1], b.shape[0])} ${hint}`.trim(), "meet")
    }
    return ["", a, b]
  }

  summed(value) {
    const { role, line, turn } = value.upright
    if (role === "Y") {
      const [said, other] = [line, turn].map((each) => each && `sum(${each} for i in heads)`)
      return value.upright.with({ line: said, turn: other })
    }
    return ["S[i]", "head[i]"].includes(role) ? value : value.unread
  }

  added(a, b) {
    const [first, second] = [a, b].map((each) => each.shape.map((size) => D.alike[size] ?? size))
    const vector = second.length === 1 && first.includes(second[0])
    if (first.length && second.length && !vector && !same(first, second)) this.fault("add", a.typed, b.typed)
    const extra = [a, b].map(({ role }) => !role || /^(b|mask)/.test(role))
    const main = extra[0] && !extra[1] ? b : a
    const one = extra.some(Boolean) || a.role === b.role
    this.loose += !one
    const whole = one && (a.line !== b.line || a.typed === b.typed)
    const [line, turn] = ["line", "turn"].map((key) => (whole && a[key] && b[key] ? `${a[key]} + ${b[key]}` : ""))
    return new Value(one ? main.role : "", main.shape, `${a.typed} + ${b.typed}`, line, turn)
  }

  ratio(a, b) {
    if (b.role !== NUMBER || !b.line) {
      this.loose++
      return a.unread
    }
    if (["A[i]", "head[i]"].includes(bare(a.role)) || a.line.includes("softmax(")) this.fault("outside", b.typed)
    else if (b.line === "sqrt(d_model)") this.note("scale", b.typed.slice(1))
    else if (/^\d+$/.test(b.line)) this.note("number", b.line, Number(b.line) ** 2)
    else if (b.line in T.base) this.note("root", b.typed)
    return a.scaled(" / ", b)
  }

  applied(name, values) {
    const x = values[0] ?? new Value()
    const up = values.map((each) => this.natural(each))
    const typed = `${name}(${values.map((each) => each.typed).join(", ")})`
    const [lines, turns] = up.every(({ line }) => line) ? ["line", "turn"].map((key) => up.map((each) => each[key])) : [[], []]
    this.steps += ["softmax", "attention", "multihead", "score"].includes(name)
    const call = (given) => (given.length ? `${name}(${given.join(", ")})` : "")
    let [role, shape, said] = ["", up[0]?.shape ?? [], () => ""]
    if (name === "softmax") {
      [role, said] = ["A[i]", (given) => call(given.slice(0, 1))]
      if (up[0]?.role === "S[i].T" && this.notes.has(D.notes.toy)) this.loose++ // X Xᵀ is its own transpose
      else if (up[0]?.role === "S[i].T") {
        this.fault("keys")
        role = "A[i].T"
      }
      if (!shape.every((size) => ["n", "n_q", "n_k", "1"].includes(size))) {
        this.loose++
        this.fault("scores", x.typed)
      }
      if (lines.join("").includes(" @ ") && !/ [*/] /.test(lines[0])) this.note("bare")
    } else if (name === "attention" || name === "multihead") {
      this.ours = true
      role = name === "attention" ? "head[i]" : "Y"
      const letters = up.map((each) => letterOf(each.role)).join("")
      if ([...letters].sort().join("") === "KQV" && letters !== "QKV") this.fault("order", typed)
      const fits = up.slice(0, 3).map(({ role: it }, i) => {
        const own = name === "attention" ? `${"QKV"[i]}[i]` : `X_${"QKV"[i]}`
        return it === own || it === (name === "multihead" ? "X" : "") || same([it, own].sort(), ["X_K", "X_V"])
      })
      this.loose += fits.filter((fit, i) => !fit && up[i].role).length
      if (lines.length > 2 && fits.every(Boolean)) said = call
    } else if (name === "concat") {
      role = joined(x.role)
      const one = (given) => [...new Set(given.map((each) => each.replace(/\d/g, "i")))]
      if (role && one(lines).length === 1) said = (given) => `concat(${one(given)[0]} for i in heads)`
    } else if (name === "score") [role, said] = ["S[i]", () => this.write.role("S[i]")]
    else if (name === "rotate" || name === "exp") [role, said] = [name === "rotate" ? up[0]?.role ?? "" : "", (given) => call(given.slice(0, 1))]
    else this.loose++
    if (role && name !== "softmax") ({ shape } = this.of(role))
    const line = said(lines)
    const value = new Value(role, shape, typed, line, line && this.write.turned(line, said(turns)))
    return name !== "score" && up.length && up[0] !== x ? value.other.with({ typed }) : value
  }

  moved(kind, value) {
    const { role, line: was } = value.upright
    const made = { cut: `${role}[i]`, join: joined(role), part: role }[kind]
    let line
    if (kind === "cut" && ["Q", "K", "V"].includes(role)) line = was && `split(${was}, h, axis=-1)[i]`
    else if (kind === "cut" && role === "QKV") line = was && `[split(x, h, axis=-1)[i] for x in split(${was}, 3, axis=-1)]`
    else if (kind === "join" && made) line = was && `concat(${was} for i in heads)`
    else if (kind === "part" && role.includes("QKV")) line = role.includes("[i]") ? was : was && `split(${was}, 3, axis=-1)`
    else {
      this.loose += kind === "cut"
      return value.unread
    }
    this.steps++
    if (kind !== "part") this.note(kind)
    const it = this.of(made, value.typed).with({ line, turn: this.write.turned(line, line) })
    return value.role.endsWith(".T") ? it.other.with({ typed: value.typed }) : it
  }

  equal([left, ...sides]) {
    const values = sides.map((node) => this.value(node))
    let last = values.at(-1)
    const names = left[0] === "list" ? left.slice(1) : [left]
    const letters = names.map(([, leaf]) => letterOf(this.roles[leaf] ?? ""))
    let parts = names.map(() => last)
    if (last.role.includes("QKV") && letters.every(Boolean)) {
      parts = letters.map((each) => this.of(bare(last.role).replace("QKV", each)))
      if (names.length < 2) last = last.unread
    } else if (names.length > 1) {
      this.loose += bare(last.role) !== "Y"
      ;[parts, last] = [[last, this.of("A")], last.unread]
    }
    const set = this.code && names.every(([kind]) => kind === "leaf")
    const lefts = set ? parts.slice(0, names.length).map((part, i) => this.assigned(names[i][1], part)) : [this.value(left)]
    const compared = set ? values : [...lefts, ...values]
    compared.slice(1).forEach((b, i) => this.compare(compared[i], b))
    const written = (key) => {
      const said = [lefts.map((it) => this.natural(it)[key]).join(", "), ...[...values.slice(0, -1), last].map((it) => this.natural(it)[key])]
      return said.every(Boolean) && new Set(said).size > 1 ? said.join(["leaf", "list"].includes(left[0]) || left[1] === "score" ? " = " : this.write.equal) : ""
    }
    const fits = names.length > 1 || alike(this.natural(lefts[0]).shape, this.natural(values.at(-1)).shape)
    const hides = !fits || (written("line").includes("attention(") && this.notes.has(D.notes.bare))
    const role = names.length > 1 ? lefts[0].role : last.role || lefts[0].role
    const [line, turn] = hides ? ["", ""] : [written("line"), written("turn")]
    const value = new Value(role, last.shape, last.typed, line, turn)
    return this.natural(value) === value ? value : value.with({ line: turn, turn: line })
  }

  assigned(leaf, value) {
    const mine = this.roles[leaf] ?? ""
    const letters = [mine, value.role].map(letterOf)
    if (letters.every(Boolean) && letters[0] !== letters[1]) this.fault("letters", ...letters)
    else if (mine && !(leaf in this.made) && !this.read.has(leaf)) this.compare(this.leaf(leaf), value)
    const role = value.role || mine
    const named = this.of(role, this.shown[leaf]).with({ free: value.free })
    this.made[leaf] = role ? named.with({ shape: value.shape.length ? value.shape : named.shape }) : value
    return this.made[leaf]
  }

  compare(a, b) {
    const pair = [bare(a.role), bare(b.role)]
    const [one, two] = pair.map(letterOf)
    const both = pair.every(Boolean)
    const upright = pair[0] === pair[1] && ["score", "output"].includes(T.role[pair[0]]?.group)
    const other = ["X X_Q", "Y joined"].includes([...pair].sort().join(" ")) || (pair.includes("made[i]") && (one || two))
    this.loose += !both || pair.includes(NUMBER)
    if (other && a.role !== b.role) this.loose += !same(a.shape.slice(1), b.shape.slice(1))
    else if (pair.includes(NUMBER) || upright) return
    else if (both && a.role !== b.role && !one && !two && !a.typed.includes("(")) this.loose++
    else if (both && a.role !== b.role) {
      if (one && two && one !== two) this.fault("letters", one, two)
      else this.fault("equal", this.meaning(a.role, pair), this.meaning(b.role, pair))
    } else if (a.shape.length && b.shape.length && !alike(a.shape, b.shape)) {
      this.fault("equal", a.shape.join(" × "), b.shape.join(" × "))
    }
  }

  meaning(role, pair) {
    const said = T.role[bare(role)].meaning
    return pair[0] === pair[1] && role.endsWith(".T") ? `${said}, transposed` : said
  }
}

const before = (a, b) => {
  const n = a.findIndex((each, i) => each !== b[i])
  return n < 0 ? 0 : a[n] - b[n]
}

/** The letters whose roles are to be found: what code has assigned before has its value. */
function readFirst(lines, code) {
  const found = new Set(), made = new Set()
  for (const line of lines) {
    const named = code && line[0] === "eq"
    const [own, read] = named ? [leavesOf(line[1]), leavesOf(...line.slice(2))] : [[], leavesOf(line)]
    const kept = own.filter((leaf) => usual(leaf).kind)
    for (const leaf of [...kept, ...read]) if (!made.has(leaf) && !number(leaf)) found.add(leaf)
    for (const leaf of own) if (!kept.includes(leaf)) made.add(leaf)
  }
  return [...found]
}

/** All readings of some lines, the likeliest first. */
export function fit(lines, shown, code) {
  const leaves = readFirst(lines, code)
  let tried = code ? [] : Object.entries(T.texts).flatMap(([name, text]) => inText(leaves, text).map(([roles, off]) => [roles, text.columns, name, off, 0]))
  for (const [roles, kind] of everybody(leaves)) {
    for (const columns of [false, true]) for (const stored of [false, true]) {
      const flips = (leaf, role) => columns !== (stored && /^(W_|P_|W\[)/.test(role) && !leaf.includes("()"))
      tried.push([Object.fromEntries(Object.entries(roles).map(([leaf, role]) => [leaf, flips(leaf, role) ? turned(role) : role])), columns, "", 50, 6 * stored + kind])
    }
  }
  const unknownIn = (roles) => leaves.filter((leaf) => !roles[leaf]).length
  const fewest = Math.min(...tried.map(([roles]) => unknownIn(roles)))
  tried = tried.filter(([roles]) => unknownIn(roles) === fewest).slice(0, MOST)
  const large = leaves.some((leaf) => "QKV".includes(leaf[0]))
  const one = new Set(leaves.filter((leaf) => large && /^[qkv]\|/.test(leaf)))
  const worlds = tried.map(([roles, columns, name, off, kind]) => {
    const world = new World(lines, Object.fromEntries(leaves.map((leaf) => [leaf, roles[leaf] ?? ""])), shown, columns, code, one)
    const faults = world.faults.size
    world.key = [fewest, faults + world.loose, -world.steps, faults, off, kind, +columns]
    world.names = name && !fewest ? [name] : []
    return world
  }).sort((a, b) => before(a.key, b.key))
  const found = new Map()
  for (const world of worlds) {
    if (before(world.key.slice(0, 2), worlds[0].key)) break
    const said = JSON.stringify([world.lines(), Object.values(world.roles).map(bare), world.columns])
    if (!found.has(said)) found.set(said, world)
    else if (same(found.get(said).key.slice(0, 5), world.key.slice(0, 5))) found.get(said).names.push(...world.names)
  }
  return [...found.values()]
}
