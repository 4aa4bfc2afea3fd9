// Which Q? — what Python's own functions and methods do, for the reader that the build writes from
// src/qkv/reading: a list or tuple is an array here, a dict a map. Of each only what the reader uses.

const plain = (value) => (value instanceof Map ? Object.fromEntries(value) : value ?? {})
const text = (value) => `${value}`

export const list = (it) => (Array.isArray(it) ? it : it == null ? [] : it instanceof Map ? [...it.keys()] : [...it])
export const truth = (it) => Boolean(it) && (it.length ?? it.size) !== 0
export { list as iter, list as tuple, text as str, truth as bool, plain }

/** JSON with maps for its objects, in the order of their keys. */
export const mapped = (it) => (Array.isArray(it) ? it.map(mapped) : it && typeof it === "object" ? new Map(Object.entries(it).map(([key, value]) => [key, mapped(value)])) : it)

export function same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((each, i) => same(each, b[i]))
  if (a instanceof Set && b instanceof Set) return a.size === b.size && [...a].every((each) => b.has(each))
  return a === b || (a == null && b == null)
}

export const has = (where, it) => (where.some ? where.some((each) => same(each, it)) : where.has ? where.has(it) : where.includes(it))

export function at(where, place) {
  const [known, it] = where instanceof Map ? [where.has(place), where.get(place)] : [place < where.length && place >= -where.length, where.at(place)]
  if (!known) throw new Error(`there is no place ${place}`)
  return it
}
export const put = (where, key, value) => (where instanceof Map ? where.set(key, value) : (where[key] = value))

// A step is 1, or it is -1 and goes from the end to before `to`.
export const slice = (where, from, to, step) => (step < 0 ? where.slice((to ?? -1) + 1).reverse() : where.slice(from ?? 0, to ?? undefined))

export const add = (a, b) => (Array.isArray(a) ? a.concat(list(b)) : a + b)
export const union = (a, b) => (a instanceof Map ? new Map([...a, ...b]) : new Set([...a, ...b]))
export const floor = (a, b) => Math.floor(a / b)

const order = (a, b) => {
  if (!Array.isArray(a)) return a < b ? -1 : a > b ? 1 : 0
  const n = a.findIndex((each, i) => order(each, b[i]))
  return n < 0 ? 0 : order(a[n], b[n])
}
export const sorted = (it, { key = (each) => each } = {}) => [...list(it)].sort((a, b) => order(key(a), key(b)))
export const min = (...given) => best(given, -1)
export const max = (...given) => best(given, 1)
function best(given, sign) {
  const { key = (each) => each } = given.at(-1)
  if (given.at(-1).key) given.pop()
  const [first, ...others] = given.length > 1 ? given : list(given[0])
  return others.reduce((kept, each) => (order(key(each), key(kept)) === sign ? each : kept), first)
}

export const len = (it) => (typeof it === "string" ? [...it].length : it.length ?? it.size)
export const any = (it) => list(it).some(truth)
export const all = (it) => list(it).every(truth)
export const sum = (it) => list(it).reduce((total, each) => total + Number(each), 0)
export const prod = (it) => list(it).reduce((total, each) => total * each, 1)
export const next = (it, otherwise) => { const [first = otherwise] = list(it); return first }
export const enumerate = (it) => list(it).map((each, i) => [i, each])
export const zip = (...lists) => { const each = lists.filter((it) => it?.strict === undefined).map(list); return Array.from({ length: Math.min(...each.map((it) => it.length)) }, (_, i) => each.map((it) => it[i])) }
export const dict = (it) => new Map(it instanceof Map ? it : list(it))
export const fromkeys = (_, keys) => new Map(list(keys).map((key) => [key, null]))
export const int = (it) => Math.trunc(Number(it))
export const float = Number
export const round = (number, digits) => Number(number.toFixed(digits))
export const isinstance = (it, kind) => (kind === text ? typeof it === "string" : kind === list ? Array.isArray(it) : kind === int ? Number.isInteger(it) : it instanceof kind)

// Methods: the value comes first.
export const get = (map, key, otherwise = null) => (map.has(key) ? map.get(key) : otherwise)
export const items = (map) => [...map]
export const values = (map) => [...map.values()]
export const setdefault = (map, key, value) => (map.has(key) || map.set(key, value), map.get(key))
export const append = (array, it) => { array.push(it) }
export const pop = (array) => array.pop()
export const index = (array, it) => (typeof array === "string" ? array.indexOf(it) : array.findIndex((each) => same(each, it)))
export const lower = (said) => said.toLowerCase()
export const upper = (said) => said.toUpperCase()
export const isdigit = (said) => /^\d+$/.test(said)
export const isidentifier = (said) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(said)
export const endswith = (said, its) => list(typeof its === "string" ? [its] : its).some((each) => said.endsWith(each))
export const removesuffix = (said, its) => (its && said.endsWith(its) ? said.slice(0, -its.length) : said)
export const replace = (said, one, other) => said.replaceAll(one, () => other)
export const join = (sign, parts) => list(parts).map(text).join(sign)
const ends = (signs) => (signs ? `[${signs.replace(/[\\\]^-]/g, "\\$&")}]+` : "\\s+")
export const strip = (said, signs) => said.replace(new RegExp(`^${ends(signs)}|${ends(signs)}$`, "g"), "")
export const split = (said, sign) => (sign === undefined ? said.split(/\s+/).filter(Boolean) : said.split(sign))
export const format = (said, ...given) => {
  let n = 0
  return said.replace(/\{(\w*)\}/g, (_, name) => text(name === "" ? given[n++] : /^\d/.test(name) ? given[name] : plain(given.at(-1))[name]))
}
export const _replace = (value, changed) => Object.assign(Object.create(Object.getPrototypeOf(value)), value, changed)

// Patterns, as qkv.reading._patterns has them: letters and digits are ASCII's.
const compiled = [new Map(), new Map(), new Map(), new Map(), new Map()] // a map for each way to look
function pattern(said, way, flags, make = (it) => it) {
  if (!compiled[way].has(said)) compiled[way].set(said, new RegExp(make(said), flags))
  return compiled[way].get(said)
}
const global = (said) => pattern(said, 1, "g")
export const search = (said, text, { lines, case: exact = true } = {}) => (lines ? pattern(said, 2, "m") : exact ? pattern(said, 0, "") : pattern(said, 3, "i")).exec(text)
export const fullmatch = (said, text) => pattern(said, 4, "", (it) => `^(?:${it})$`).exec(text)
export const findall = (pattern, said) => [...said.matchAll(global(pattern))].map(([whole, ...groups]) => (groups.length > 1 ? groups.map((it) => it ?? "") : groups[0] ?? whole))
const by = (said) => (typeof said === "string" ? (...found) => said.replace(/\\(\d|g<0>|\\)/g, (_, n) => (n === "\\" ? n : found[n === "g<0>" ? 0 : n] ?? "")) : (...found) => said(found))
export const sub = (pattern, said, text) => text.replace(global(pattern), by(said))
export const cut = (pattern, said) => said.split(global(pattern))
export const normalize = (said) => said.normalize("NFKC")

export const pairwise = (it) => list(it).slice(1).map((each, i) => [list(it)[i], each])
export const map = (change, it) => list(it).map((each) => change(each))
