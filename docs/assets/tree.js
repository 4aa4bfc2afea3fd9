// Which Q? — what was typed, as a tree: LaTeX, Unicode, plain text and Python by one grammar. It is
// src/qkv/reading/_tree.py again, and goes by the same data; a test compares the two.

/** What was typed has a mistake in it that can be named. */
export class Refused extends Error {}

const PAIRS = { "(": ")", "[": "]", "{": "}" }
const ENDS = [..."}])", ",", ";", "+", "-", "=", "|", ":", "for", "->"]
const IDENTIFIER = /^[\p{L}_][\p{L}\p{N}_]*$/u
let data, words, functions

export function prepare(given) {
  data = given
  words = Object.fromEntries(Object.entries(data.words).map(([name, said]) => [name, said.split(" ")]))
  functions = Object.fromEntries(Object.entries(data.functions).flatMap(([op, names]) => names.split(" ").map((name) => [name, op])))
}

const patterns = new Map()
/** Whether a pattern of the data is all of a text. */
export function whole(pattern, text) {
  if (!patterns.has(pattern)) patterns.set(pattern, new RegExp(`^(?:${pattern})$`))
  return patterns.get(pattern).exec(text)
}

/** A sentence of the data with its gaps filled, in their order, by number or by name. */
export function put(said, ...given) {
  let next = 0
  return said.replace(/\{(\w*)\}/g, (_, name) => (name === "" ? given[next++] : /^\d/.test(name) ? given[name] : given.at(-1)[name]))
}

export const known = (name) => name.toLowerCase() in functions || words.whole.includes(name.toLowerCase())
export const knownWords = () => [...Object.keys(functions), ...words.whole]
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b)

/** A node and all within it. */
export const walk = (node) => (Array.isArray(node) ? [node, ...node.slice(1).flatMap(walk)] : [])

/** The trees of all lines, how each letter was typed, what was left, and whether it is code. */
export function parse(text) {
  const code = new RegExp(data.code, "m").test(text) && !new RegExp(data.formula).test(text)
  let pieces = (code ? text : normal(text)).split(/\n|;/)
  if (!code) pieces = pieces.flatMap((piece) => piece.split(new RegExp(data.between)))
  const lines = [], left = []
  let shown = {}
  for (const piece of pieces.filter((each) => each.trim())) {
    const [said, ...sizes] = piece.split("∈")
    const parser = new Parser(said, code)
    let tree = parser.line()
    if (tree && sizes.join("∈")) {
      const [, ...power] = sizes.join("∈").split("^")
      const names = (power.length ? power.join("^") : sizes.join("∈")).trim().slice(1, -1).split(/[*x]/)
      tree = ["shape", tree, ...names.map((each) => new Parser(each, false).product())]
    }
    shown = { ...parser.shown, ...shown }
    left.push(...parser.left)
    if (tree) lines.push(...(tree[0] === "lines" ? tree.slice(1) : [tree]))
  }
  return { lines, shown, left, code }
}

function normal(text) {
  for (const [sign, written] of Object.entries(data.scripts)) text = text.replace(new RegExp(written, "g"), `${sign}{$&}`)
  for (const [pattern, plain] of Object.entries(data.spelling)) text = text.replace(new RegExp(pattern, "g"), plain)
  return text.normalize("NFKC")
}

function tokens(text, code) {
  if (code) return text.replace(/#.*|^\s*(return|>>>)\s/g, "").match(new RegExp(data.token.code, "gu")) ?? []
  const out = []
  for (const token of text.match(new RegExp(data.token.formula, "gu")) ?? []) {
    const lost = whole(data.token.lost, token)
    if (["_", "^"].includes(out.at(-1)) && whole(data.token.run, token)) out.push(...token)
    else if (known(token) || words.of.includes(token.toLowerCase()) || !/^[A-Za-z]{2,}$/.test(token) || ["_", "^"].includes(out.at(-1))) out.push(token)
    else if (lost) out.push(lost[1], "_", "{", lost[2], "}")
    else if (token.length > 3 && !/^[QKVWXTOA]+$/.test(token)) out.push(token)
    else for (const part of token.match(new RegExp(data.token.parts, "g"))) out.push(...(part.length === 1 ? [part] : [part[0], "_", part[1]]))
  }
  return out
}

const deeper = (token) => (token in PAIRS) - Object.values(PAIRS).includes(token)

class Parser {
  constructor(text, code) {
    Object.assign(this, { tokens: tokens(text, code), at: 0, code, left: [], shown: {} })
    const awaited = []
    for (const token of this.tokens) {
      if (token in PAIRS) awaited.push(token)
      else if (Object.values(PAIRS).includes(token) && PAIRS[awaited.pop()] !== token) throw new Refused(put(data.refused.closes, text.trim(), token))
    }
    if (awaited.length) throw new Refused(put(data.refused.open, text.trim(), awaited.at(-1)))
  }

  next(ahead = 0) { return this.tokens[this.at + ahead] ?? "" }
  take() { return this.tokens[this.at++] }
  show(leaf, typed) { this.shown[leaf] ??= typed }

  line() {
    const sides = [this.several()]
    while (this.next()) {
      if (this.take() === "=") sides.push(this.several())
      else this.left.push(this.tokens[this.at - 1])
    }
    if (sides.length < 2) return sides[0][0]
    if (sides.some(([first]) => !first || ["num", "made"].includes(first[0]))) return undefined
    const [names, values] = [sides[0], sides.at(-1)]
    if (names.length > 1 && names.length === values.length) return ["lines", ...names.map((name, i) => ["eq", name, values[i]])]
    let [value] = values
    if (this.code && names.length > 2 && value[0] !== "part") value = ["part", value]
    if (this.code && sides.length === 2 && walk(value).some((each) => same(each, names[0]))) return value
    return ["eq", names[0], ...sides.slice(1, -1).map(([first]) => first), value]
  }

  several() {
    const found = [this.sum()]
    while (this.next() === ",") {
      this.take()
      found.push(this.sum())
    }
    return found.filter(Boolean)
  }

  sum() {
    let node = this.product()
    while (["+", "-"].includes(this.next())) {
      this.take()
      const other = this.product()
      node = node && other ? ["add", node, other] : node ?? other
    }
    return node
  }

  product() {
    let node, dot = false
    while (this.next() && !ENDS.includes(this.next())) {
      const token = this.next()
      if (["*", "@", "."].includes(token)) dot = this.take() !== "@"
      else if (token === "/") {
        this.take()
        if (this.next() === "\\sum") {
          this.take()
          this.scripts()
        }
        node = divided(node ?? ["num", "1"], this.factor())
      } else if (token === "T" && node && !this.code) {
        this.take()
        node = node[0] === "mul" ? [...node.slice(0, -1), ["t", node.at(-1)]] : ["t", node]
      } else {
        node = times(node, this.factor(), dot)
        dot = false
      }
    }
    return node
  }

  factor() {
    const token = this.take() ?? ""
    if (token in PAIRS) {
      const inside = this.several()
      for (let depth = 1; depth && this.next();) {
        depth += deeper(this.next())
        const passed = this.take()
        if (depth > 0) this.left.push(passed)
      }
      return this.after(inside.length > 1 ? ["several", ...inside] : inside[0])
    }
    if (token === "\\frac") return this.after(divided(this.factor(), this.factor()))
    if (token.replace(/^\\+/, "") === "sqrt") return this.after(["sqrt", this.factor()])
    if (token === "\\sum") {
      this.scripts()
      const node = this.product()
      return node?.[0] === "mul" ? ["dot", ...node.slice(1)] : node
    }
    if (/^[\d"']/.test(token)) return this.after(["num", token])
    if (token[0] === "\\" || IDENTIFIER.test(token)) return this.name(token.replace(/^\\+/, ""))
    if (token) this.left.push(token)
  }

  name(name) {
    const low = name.toLowerCase()
    if (this.code && words.modules.includes(low)) return this.member()
    if (this.code && this.next() === "(") return this.call(name)
    const three = "fAa".includes(name) && this.next() === "(" && this.arguments().length === 3
    if (!this.code && (low in functions || three)) {
      this.scripts()
      const inside = this.next() in PAIRS || this.next() === "\\frac" ? this.factor() : this.product()
      const given = inside?.[0] === "several" ? inside.slice(1) : [inside]
      return this.after(applied(three ? "attention" : functions[low], given.filter(Boolean)))
    }
    return this.after(this.letter(name))
  }

  letter(name) {
    const began = this.at
    let [scripts, turned] = this.scripts()
    const typed = (name + this.tokens.slice(began, this.at).join("")).replace(/\{(\w)\}/g, "$1").replace(/\^(T|\{T\})$/, "")
    const parts = this.code && whole(data.token.short, name)
    if (parts) [name, scripts] = [parts[1], [parts[2], ...scripts]]
    const leaf = `${name}|${[...scripts.join("").replace(/[^\p{L}\p{N}]/gu, "")].sort().join("")}`
    this.show(leaf, typed)
    if (!this.code && words.of.includes(name.toLowerCase()) && ["[", "("].includes(this.next())) this.factor()
    return turned ? ["t", ["leaf", leaf]] : ["leaf", leaf]
  }

  scripts() {
    const found = []
    let turned = false
    while (this.next() === "^" || (this.next() === "_" && !this.code)) {
      const above = this.take() === "^"
      let text = ""
      for (let depth = 0; this.next();) {
        const token = this.take()
        depth += deeper(token)
        text += token
        if (depth <= 0) break
      }
      text = text.replace(/[{}()\\,<>]/g, "")
      if (above && text.endsWith("T") && text !== "DT") [turned, text] = [true, text.slice(0, -1)]
      if (text) found.push(text)
    }
    return [found, turned]
  }

  after(node) {
    for (let token; (token = this.next());) {
      if (token === "^" || (token === "_" && !this.code)) {
        const [found, turned] = this.scripts()
        if (turned) node = node && ["t", node]
        else this.left.push(...found)
      } else if (this.code && token === "." && IDENTIFIER.test(this.next(1))) {
        this.take()
        node = this.member(node)
      } else if (this.code && token === "[") node = this.indexed(node)
      else if (this.code && token === "**") {
        this.take()
        this.at += this.next() === "-"
        this.factor()
        node = ["sqrt", node]
      } else if (this.code && token === "(" && node?.[0] === "made") node = this.call("multihead")
      else break
    }
    return node
  }

  indexed(node) {
    const index = this.arguments().join(",")
    this.skip()
    if (!node && /^["']/.test(index)) return this.letter(index.slice(1, -1))
    if (node?.[0] === "leaf" && /^(i|h|head|\d)$/.test(index)) {
      if (node[1].includes("qkv")) return ["part", node]
      const key = marked(node[1], index[0])
      this.show(key, `${this.shown[node[1]]}[${index}]`)
      return ["leaf", key]
    }
    return node && /^[\w*]*:/.test(index) ? ["part", node] : node
  }

  member(owner) {
    if (!owner && this.next() !== ".") return this.after()
    this.at += this.next() === "."
    const name = this.next() ? this.take() : ""
    if (["T", "mT"].includes(name) && owner) return ["t", owner]
    if (this.next() === "(") return this.call(name, owner)
    if (owner) return name === "shape" ? ["num", name] : owner
    if (this.next() === "." && !words.methods.includes(this.next(1))) return this.member()
    return this.after(this.letter(name))
  }

  arguments() {
    const found = [""]
    let depth = 0
    for (const token of this.tokens.slice(this.at)) {
      depth += deeper(token)
      if (!depth) break
      if (token === "," && depth === 1) found.push("")
      else if (depth > 1 || !(token in PAIRS) || found.at(-1)) found.push(found.pop() + token)
    }
    return found.filter(Boolean)
  }

  skip() {
    for (let depth = 0; this.next();) {
      depth += deeper(this.take())
      if (!depth) break
    }
  }

  call(name, owner) {
    const said = this.arguments()
    const began = this.at
    this.skip()
    const ended = this.at
    const values = [], named = {}
    for (this.at = began + 1; this.at < ended - 1; this.at++) {
      const key = this.next(1) === "=" ? this.next() : ""
      if (key) this.at += 2
      const kept = this.left.length
      const value = this.sum()
      if (key) named[key] = value
      else if (value) values.push(value)
      this.left.length = kept
      for (let depth = 0; this.at < ended - 1 && (depth || this.next() !== ","); this.at++) depth += deeper(this.next())
    }
    this.at = ended
    values.push(...words.arguments.map((key) => named[key]).filter(Boolean))
    return this.after(this.called(name, said, owner ? [owner, ...values] : values, Boolean(owner)))
  }

  called(name, said, values, owned) {
    const op = functions[name.toLowerCase()] ?? ""
    const [first, second] = values
    if (op === "einsum") return einsum(said, values.length === 2 && second[0] === "several" ? second.slice(1) : values.slice(1), this.shown)
    if (op === "linear" && values.length < 2 + (first ? first[0] === "num" : 1)) {
      this.shown["new()|"] = name
      return ["leaf", "new()|"]
    }
    if (op === "made" || (op === "multihead" && first?.[0] === "num")) {
      return values.some((each) => each[0] === "leaf") ? ["fn", "multihead", ...values.slice(0, 3)] : ["made"]
    }
    if (["view", "permute", "transpose", "rearrange"].includes(op) && first) {
      return moved(op, said.filter((each) => !each.includes("=")).slice(owned ? 0 : 1), first)
    }
    if (op === "split" && first) return ["part", first]
    if (["product", "linear"].includes(op) && second) {
      return ["mul", first, op === "linear" || said.includes("transpose_b=True") ? ["t", second] : second]
    }
    if (op === "softmax" && first) {
      const axis = said.find((each) => /^(dim|axis)=(0|-2)$/.test(each))
      return axis ? ["wrong", ["fn", "softmax", first], "softmax", axis] : ["fn", "softmax", first]
    }
    if (op && first) return applied(op, values)
    if (name === "size") return ["num", name]
    if (owned || words.methods.includes(name)) return first
    if (values.length === 1) {
      this.show(`${name}()|`, name)
      return ["mul", first, ["leaf", `${name}()|`]]
    }
    this.left.push(name)
  }
}

const marked = (leaf, mark) => leaf.replace(/\|.*/, (marks) => `|${[...marks.slice(1), mark].sort().join("")}`)
const isSoftmax = (node) => node?.[0] === "fn" && node[1] === "softmax"
const divided = (a, b) => (isSoftmax(a) && walk(b).some(isSoftmax) ? a : ["div", a, b])

function times(a, b, dot) {
  if (!a || !b) return a ?? b
  return [dot && [a, b].every(([kind, leaf]) => kind === "leaf" && "qk".includes(leaf[0])) ? "dot" : "mul", a, b]
}

function applied(op, values) {
  if (op === "product" && values.length > 1) return ["mul", ...values.slice(0, 2)]
  if (op === "sqrt") return ["sqrt", values[0]]
  return op === "same" ? values[0] : ["fn", op, ...values.slice(0, 3)]
}

function moved(op, said, node) {
  const last = said.slice(-2)
  if (op === "rearrange") return [said.join("").split("->")[0].includes("(") ? "cut" : "join", node]
  if (op === "transpose") return ["-1 -2", "2 3"].includes(last.sort().join(" ")) ? ["t", node] : node
  if (op === "permute") return ["3 2", "2 1"].includes(last.join(" ")) ? ["t", node] : node
  const heads = said.findIndex((each) => whole(data.token.heads, each))
  const length = said.findIndex((each, n) => n && whole(data.token.length, each))
  if ((heads >= 0 && heads < length) || /\*.*(heads?|h)$/.test(said[0] ?? "")) return ["wrong", node, "view", said.join(", ")]
  return heads >= 0 && said.length > 3 ? ["cut", node] : said.length === 3 ? ["join", node] : node
}

function einsum(said, arrays, shown) {
  const [left, ...result] = said[0].replace(/[^A-Za-z,>]/g, "").split(">")
  const [parts, out] = [left.split(","), result.join(">")]
  if (parts.length !== arrays.length) throw new Refused(put(data.refused.einsum, said[0], parts.length, arrays.length))
  for (const letter of out) if (!left.includes(letter)) throw new Refused(put(data.refused.letter, letter, out, left))
  if (parts.length !== 2) return arrays[0]
  const [a, b] = parts
  let [one, two] = arrays
  const summed = [...a].find((x) => b.includes(x) && !out.includes(x))
  const [ownA, ownB] = [[a, b], [b, a]].map(([mine, other]) => [...mine].filter((x) => !other.includes(x)))
  if (summed && two[0] === "leaf" && ownB.length === 2) {
    const key = marked(two[1], "i")
    shown[key] = shown[two[1]]
    two = ["leaf", key]
  }
  if (summed && ownA.length && a.indexOf(summed) < a.indexOf(ownA.at(-1))) one = ["t", one]
  if (summed && ownB.length && b.indexOf(summed) > b.indexOf(ownB.at(-1))) two = ["t", two]
  return ["mul", one, two]
}
