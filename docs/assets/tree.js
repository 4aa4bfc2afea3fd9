// Which Q? — what was typed, as a tree: LaTeX, Unicode, plain text and Python by one grammar. It is
// src/qkv/reading/_tree.py again, and goes by the same data; a test compares the two.

/** What was typed has a mistake in it that can be named. */
export class Refused extends Error {}

const PAIRS = { __proto__: null, "(": ")", "[": "]", "{": "}" }
const CLOSE = Object.values(PAIRS)
const ENDS = [...CLOSE, ",", ";", "+", "-", "=", "|", ":", "for", "->"]
const IDENTIFIER = /^[\p{L}_][\p{L}\p{N}_]*$/u
const ONE = ["num", "1"], WIDTH = ["leaf", "d_k|"]
const DEEP = 20, LONG = 300 // brackets in brackets, and signs in a line
let data, words, functions

export function prepare(given) {
  data = given
  words = Object.fromEntries(Object.entries(data.words).map(([name, said]) => [name, said.split(" ")]))
  functions = Object.assign(Object.create(null), ...Object.entries(data.functions).flatMap(([op, names]) => names.split(" ").map((name) => ({ [name]: op }))))
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
export const leavesOf = (...nodes) => nodes.flatMap(walk).filter(([kind]) => kind === "leaf").map(([, leaf]) => leaf)

/** The trees of all lines, how each letter was typed, what was left, and whether it is code. */
export function parse(text) {
  const code = new RegExp(data.code, "m").test(text) && !new RegExp(data.formula).test(text)
  let pieces = (code ? text : normal(text)).split(/\n|;(?![^[\]]*\])/)
  if (!code) pieces = pieces.flatMap((piece) => piece.split(new RegExp(data.between)))
  const lines = [], left = []
  let shown = {}
  for (const piece of pieces.map((each) => each.trim())) {
    if (code && new RegExp(`^(?:${data.aside})`).test(piece)) continue
    if (code && new RegExp(`^(?:${data.branch})`).test(piece)) {
      left.push(piece)
      continue
    }
    const [said, ...sizes] = piece.split("∈")
    const parser = new Parser(said, code, pieces.length === 1 ? text : said)
    let tree = parser.line()
    if (tree && sizes.join("∈")) {
      const [whole, ...power] = sizes.join("∈").split("^")
      const names = (power.length ? power.join("^") : whole).trim().slice(1, -1).split(/[*x]/)
      tree = ["shape", tree, ...names.flatMap((each) => leavesOf(new Parser(each, false).product()).slice(0, 1))]
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
    else if (whole(data.token.word, token)) out.push(token)
    else for (const part of token.match(new RegExp(data.token.parts, "g"))) out.push(...(part.length === 1 ? [part] : [part[0], "_", part[1]]))
  }
  return out
}

const deeper = (token) => (token in PAIRS) - CLOSE.includes(token)

class Parser {
  constructor(text, code, typed = text) {
    Object.assign(this, { tokens: tokens(text, code), at: 0, code, left: [], shown: {}, depth: 0 })
    const awaited = []
    for (const token of this.tokens) {
      if (token in PAIRS) awaited.push(token)
      else if (CLOSE.includes(token) && PAIRS[awaited.pop()] !== token) throw new Refused(put(data.refused.closes, typed.trim(), token))
    }
    if (awaited.length) throw new Refused(put(data.refused.open, typed.trim(), awaited.at(-1)))
    if (this.tokens.length > LONG) throw new Refused(data.refused.deep)
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
    if (sides.some(([first]) => !first || ["num", "made"].includes(first[0]) || same(first, WIDTH))) return undefined
    const [names, values] = [sides[0], sides.at(-1)]
    if (names.length > 1 && names.length === values.length) return ["lines", ...names.map((name, i) => ["eq", name, values[i]])]
    if (!this.code && names[0][0] === "leaf" && names.length < 2 && walk(values[0]).some((each) => same(each, names[0]))) return values[0]
    return ["eq", names.length > 1 ? ["list", ...names] : names[0], ...sides.slice(1).map(([first]) => first)]
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
      const minus = this.take() === "-"
      const other = this.product()
      if (minus) node = node ? ["pass", node, other] : other && ["neg", other]
      else node = node && other ? ["add", node, other] : node ?? other
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
        node = divided(node ?? ONE, this.factor())
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
    if (++this.depth > DEEP) throw new Refused(data.refused.deep)
    const token = ENDS.includes(this.next()) ? "" : this.take() ?? ""
    let node
    if (token in PAIRS) {
      const inside = this.several()
      while (!CLOSE.includes(this.next())) this.left.push(this.take())
      this.take()
      node = inside.length > 1 ? ["list", ...inside] : inside[0]
    } else if (token === "\\frac") node = divided(this.factor(), this.factor())
    else if (token.replace(/^\\+/, "") === "sqrt") node = ["sqrt", this.factor()]
    else if (token === "\\sum") {
      this.scripts()
      node = ["sum", this.product()]
    } else if (/^[\d"']/.test(token)) node = ["num", token]
    else if (token[0] === "\\" || IDENTIFIER.test(token)) node = this.name(token.replace(/^\\+/, ""))
    else if (token) this.left.push(token)
    node = this.after(node)
    this.depth--
    return node
  }

  name(name) {
    const low = name.toLowerCase()
    if (this.code && words.modules.includes(low)) return this.member()
    if (this.code) return this.next() === "(" ? this.call(name) : this.letter(name)
    if (low in functions) {
      this.scripts()
      return applied(words.attn.includes(low) ? "attention" : functions[low], items(this.next() in PAIRS || this.next() === "\\frac" ? this.factor() : this.product()))
    }
    if (this.next() === "(" && !words.whole.includes(low) && !words.of.includes(low)) {
      const [began, kept] = [this.at, this.left.length]
      const given = items(this.factor())
      if ("fAa".includes(name) && given.length === 3) return ["fn", "attention", ...given]
      if (words.score.includes(low) && given.length === 2) return ["fn", "score", ...given]
      if (name.length > 2 || /[^\0-\x7f]/.test(name)) {
        this.left.push(name)
        return ["fn", "unread", ...given]
      }
      this.at = began
      this.left.length = kept
    }
    return this.letter(name)
  }

  letter(name) {
    const began = this.at
    let [scripts, turned, shared] = this.scripts()
    const above = this.tokens.slice(began, this.at).map((each) => (each.length > 1 && each[0] === "\\" ? `${each} ` : each)).join("")
    const typed = (name + above).replace(/\{(\w)\}/g, "$1").replace(/\^(T|\{T\})$/, "")
    const parts = this.code && whole(data.token.short, name)
    if (parts) [name, scripts] = [parts[1], [parts[2], ...scripts]]
    const leaf = marked(`${name}|`, scripts.join("").replace(/[^\p{L}\p{N}]/gu, ""))
    this.show(leaf, typed)
    if (!this.code && words.of.includes(name.toLowerCase()) && ["[", "("].includes(this.next())) this.factor()
    const node = shared ? ["note", ["leaf", leaf], "shared", typed] : ["leaf", leaf]
    return turned ? ["t", node] : node
  }

  scripts() {
    const found = []
    let [turned, shared] = [false, false]
    while (this.next() === "^" || (this.next() === "_" && !this.code)) {
      const above = this.take() === "^"
      let text = ""
      for (let depth = 0; this.next() && (depth || !CLOSE.includes(this.next()));) {
        const token = this.take()
        depth += deeper(token)
        text += token
        if (depth <= 0) break
      }
      if (new RegExp(data.token.shared).test(text)) [text, shared] = ["i", true]
      text = text.replace(/[{}()\\,<>]/g, "")
      if (above && text.endsWith("T") && text !== "DT") [turned, text] = [true, text.slice(0, -1)]
      if (text) found.push(text)
    }
    return [found, turned, shared]
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
        node = power(node, this.next() === "-" ? this.sum() : this.factor())
      } else if (this.code && token === "(" && node?.[0] === "made") node = this.call(node[1])
      else break
    }
    return node
  }

  indexed(node) {
    const index = this.arguments().map(([, , said]) => said).join(",")
    if (!node && /^["']/.test(index)) return this.letter(index.slice(1, -1))
    if (!node || same(node, WIDTH)) return node
    if (node[0] === "leaf" && /^(i|h|head|\d)$/.test(index) && !node[1].includes("qkv")) {
      const key = marked(node[1], index[0])
      this.show(key, `${this.shown[node[1]]}[${index}]`)
      return ["leaf", key]
    }
    return [/^(\d|\w*:\w*)$/.test(index) ? "part" : "pass", node]
  }

  member(owner) {
    this.at += this.next() === "."
    if (!IDENTIFIER.test(this.next())) return owner
    const name = this.take()
    if (["T", "mT"].includes(name) && owner) return ["t", owner]
    if (this.next() === "(") return this.call(name, owner)
    if (owner && name === "shape") {
      const other = this.next() === "[" && this.tokens.slice(this.at + 1, this.at + 3).join("") !== "-1"
      return other ? ["pass", WIDTH] : WIDTH
    }
    if (owner) return owner
    const module = words.modules.includes(name.toLowerCase()) || !words.methods.includes(this.next(1))
    if (this.next() === "." && module) return this.member()
    return this.letter(name)
  }

  arguments() {
    const found = []
    this.take()
    while (!CLOSE.includes(this.next())) {
      const key = this.next(1) === "=" && !(this.next() in PAIRS) ? this.take() : ""
      if (key) this.take()
      const [began, kept] = [this.at, this.left.length]
      let node = this.sum()
      const read = this.at
      const all = this.left.length === kept
      for (let depth = 0; depth || !(this.next() === "," || CLOSE.includes(this.next()));) depth += deeper(this.take())
      if (node && !(all && read === this.at)) node = ["pass", node]
      this.left.length = kept
      found.push([key, node, this.tokens.slice(began, this.at).join("")])
      this.at += this.next() === ","
    }
    this.take()
    return found
  }

  call(name, owner) {
    const op = functions[name.toLowerCase()] ?? ""
    const given = this.arguments()
    const values = [owner, ...given.map(([key, node]) => (key ? undefined : node))].filter(Boolean)
    const said = given.filter(([key]) => !key).map(([, , text]) => text)
    const keys = Object.fromEntries(given.filter(([key]) => key))
    const [first, second, third] = values
    if (name === "size") return !said.length || said.join() === "-1" ? WIDTH : ["pass", WIDTH]
    if (op === "einsum") return einsum(said, items(["list", ...values.slice(1)]), this.shown)
    if (["attention", "multihead", "made"].includes(op)) return layer(name, op, values, keys)
    if (op === "linear" && !second) return ["made", name]
    if (!first) {
      this.left.push(name)
      return undefined
    }
    said.push(...given.filter(([key]) => ["perm", "axes"].includes(key)).map(([, , text]) => text))
    if (op === "moved") return moved(name, said.slice(owner ? 0 : 1), first)
    if (["product", "linear"].includes(op) && second) {
      const node = times(first, op === "linear" || "transpose_b" in keys ? ["t", second] : second, name === "dot")
      return op === "linear" && third ? ["add", node, third] : node
    }
    if (op === "softmax") {
      const axis = given.filter(([key]) => ["dim", "axis"].includes(key)).map(([key, , text]) => `${key}=${text}`)
      const node = ["fn", "softmax", first]
      return axis.some((each) => /=(0|-2)$/.test(each)) ? ["wrong", node, "softmax", axis[0]] : node
    }
    if (op) return applied(op, items(["list", ...values]))
    if (words.methods.includes(name)) return first
    if (values.length === 1 && !owner) {
      this.show(`${name}()|`, name)
      return ["call", ["leaf", `${name}()|`], first]
    }
    this.left.push(name)
    return ["pass", ...values]
  }
}

/** The letter that a text writes so. */
export const leafOf = (latex) => new Parser(normal(latex), false).product()

const items = (node) => (node?.[0] !== "list" ? (node ? [node] : []) : node.slice(1).flatMap((each) => (node.length === 2 ? items(each) : [each])))
const marked = (leaf, mark) => leaf.replace(/\|.*/, (marks) => `|${[...marks.slice(1), ...mark].sort().join("")}`)
const isExp = (node) => node?.[0] === "fn" && node[1] === "exp"
const divided = (a, b) => (isExp(a) && walk(b).some(isExp) ? ["fn", "softmax", ...a.slice(2)] : ["div", a, b])

function times(a, b, dot) {
  if (!a || !b) return a ?? b
  const vectors = dot && [a, b].every(([kind, leaf]) => kind === "leaf" && "qk".includes(leaf[0]))
  return vectors || !["mul", "dot"].includes(a[0]) ? [vectors ? "dot" : "mul", a, b] : [...a, b]
}

function power(node, exponent) {
  const minus = exponent?.[0] === "neg"
  const half = [["num", "0.5"], ["div", ONE, ["num", "2"]]].some((each) => same(each, minus ? exponent[1] : exponent))
  const root = [half ? "sqrt" : "pass", node]
  return minus ? ["div", ONE, root] : root
}

function applied(op, values) {
  if (op === "sqrt") return ["sqrt", values[0]]
  return op === "same" ? ["pass", ...values] : ["fn", op, ...values]
}

function layer(name, op, values, keys) {
  const arrays = values.filter(([kind]) => kind !== "num")
  const named = Object.entries(keys).filter(([key]) => words.arguments.includes(key))
  if (op !== "attention" && !arrays.length && !named.length) return ["made", name]
  const given = {}
  const order = data.order[name] ?? "QKV"
  arrays.slice(0, 3).forEach((node, i) => (given[order[i]] = node))
  for (const [key, node] of named) given[key[0].toUpperCase()] = node
  if (!("V" in given)) given.V = given.K
  if (!("K" in given)) given.K = given.V
  const node = ["fn", op === "attention" ? op : "multihead", ...[..."QKV"].map((letter) => given[letter]).filter(Boolean)]
  const more = arrays.length > 3 || Object.keys(keys).some((key) => /mask|causal|bias/.test(key))
  return more ? ["pass", node] : node
}

function moved(name, said, node) {
  if (name === "rearrange") {
    const [left, right = ""] = (said[0] ?? "").replace(/^['"]+|['"]+$/g, "").split("->")
    const group = /\(([^()]*)\)/.exec(left)
    if (group && !/h|d/.test(group[1])) return ["pass", node]
    if (group) {
      const names = group[1].trim().split(/\s+/)
      const three = names.filter((each) => words.three.includes(each)).length
      const cut = names.length > three + 1 ? ["cut", node] : node
      return three ? ["part", cut] : cut
    }
    const [a, b] = [left, right].map((side) => side.trim().split(/\s+/).slice(-2))
    return right.includes("(") ? ["join", node] : same(a.reverse(), b) ? ["t", node] : node
  }
  if (said.length === 1 && said[0][0] in PAIRS) said = said[0].slice(1, -1).split(",")
  if (name === "permute" || (name === "transpose" && said.length > 2)) return said.at(-1) === [...said].sort().at(-1) ? node : ["t", node]
  if (["transpose", "swapaxes", "t"].includes(name)) {
    const axes = said.slice(-2).sort().join(" ")
    if (["-1 -2", "2 3", ""].includes(axes)) return ["t", node]
    return ["cut", "wrong"].includes(node[0]) || axes === "-2 -3" ? node : ["swap", node]
  }
  if (["split", "chunk", "unbind"].includes(name)) return ["part", node]
  const heads = said.findIndex((each) => whole(data.token.heads, each))
  const length = said.findIndex((each, n) => n && whole(data.token.length, each))
  const merged = node[0] !== "swap" && /\*.*(heads?|h)$/.test(said[0] ?? "")
  if ((heads >= 0 && heads < length) || merged) return ["wrong", node, "view", said.join(", ")]
  if (said.length > 3) return [heads < 0 || heads === said.length - 2 ? "cut" : "pass", node]
  return [name === "flatten" || said.length === 3 ? "join" : "pass", node]
}

function einsum(said, arrays, shown) {
  const equation = said[0] ?? ""
  const [left, ...result] = equation.replace(/[^A-Za-z,>]/g, "").split(">")
  const [parts, out] = [left.split(","), result.join(">")]
  if (parts.length !== arrays.length) throw new Refused(put(data.refused.einsum, equation, parts.length, arrays.length))
  for (const letter of out) if (!left.includes(letter)) throw new Refused(put(data.refused.letter, letter, out, left))
  if (parts.length !== 2) return ["pass", ...arrays]
  const [a, b] = parts
  let [one, two] = arrays
  const [ownA, ownB] = [[a, b], [b, a]].map(([mine, other]) => [...mine].filter((x) => !other.includes(x)))
  const summed = [...a].find((x) => b.includes(x) && !out.includes(x))
  const lost = [...ownA, ...ownB].find((x) => !out.includes(x))
  if (lost) return ["wrong", ["pass", one, two], "einsum", lost, `${left}->${[...a].filter((x) => x !== a.at(-1)).join("")}${ownB.join("")}`]
  if (!summed) return ["pass", one, two]
  if (two[0] === "leaf" && ownB.length === 2) {
    const key = marked(two[1], "i")
    shown[key] = shown[two[1]]
    two = ["leaf", key]
  }
  if (ownA.length && a.indexOf(summed) < a.indexOf(ownA.at(-1))) one = ["t", one]
  const node = ["mul", one, ["free", two]]
  return ownA.length && ownB.length && out.indexOf(ownA.at(-1)) > out.indexOf(ownB.at(-1)) ? ["t", node] : node
}
