// What Python's own functions and methods do, for the reader that the build writes from src/qkv/reading
// and puts this before: a list or tuple is an array, a dict a map. Of each only what the reader uses.

const py_str = (value) => `${value}`

const py_list = (it) => (Array.isArray(it) ? it : it == null ? [] : it instanceof Map ? [...it.keys()] : [...it])
const py_truth = (it) => Boolean(it) && (it.length ?? it.size) !== 0
const py_iter = py_list, py_tuple = py_list, py_bool = py_truth

/** JSON with maps for its objects, in the order of their keys. */
const py_mapped = (it) => (Array.isArray(it) ? it.map(py_mapped) : it && typeof it === "object" ? new Map(Object.entries(it).map(([key, value]) => [key, py_mapped(value)])) : it)

function py_same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((each, i) => py_same(each, b[i]))
  if (a instanceof Set && b instanceof Set) return a.size === b.size && [...a].every((each) => b.has(each))
  return a === b || (a == null && b == null)
}

const py_has = (where, it) => (where.some ? where.some((each) => py_same(each, it)) : where.has ? where.has(it) : where.includes(it))

function py_at(where, place) {
  const it = where instanceof Map ? where.get(place) : where.at(place)
  if (it === undefined && !(place in where)) throw Error(place)
  return it
}
const py_cache = (make, made = new Map()) => (it) => made.get(it) ?? py_put(made, it, make(it)).get(it)
const py_put = (where, key, value) => (where instanceof Map ? where.set(key, value) : where.splice(key, 1, value))

// Of a slice with a step, which is 1, or -1 from the end.
const py_turned = (where, step) => (step < 0 ? [...where].reverse() : where)

const py_add = (a, b) => (Array.isArray(a) ? a.concat(py_list(b)) : a + b)
const py_union = (a, b) => (a instanceof Map ? new Map([...a, ...b]) : new Set([...a, ...b]))
const py_floor = (a, b) => Math.floor(a / b)

const order = (a, b) => {
  if (!Array.isArray(a)) return a < b ? -1 : a > b ? 1 : 0
  const n = a.findIndex((each, i) => order(each, b[i]))
  return n < 0 ? 0 : order(a[n], b[n])
}
const py_sorted = (it, { key = (each) => each } = {}) => [...py_list(it)].sort((a, b) => order(key(a), key(b)))
const best = (sign) => (it, ...more) => {
  const { key = (each) => each } = more.at(-1) ?? {}
  const all = more.length && !more[0].key ? [it, ...more] : py_list(it)
  return all.reduce((kept, each) => (order(key(each), key(kept)) === sign ? each : kept))
}
const py_min = best(-1), py_max = best(1)

const py_len = (it) => (typeof it === "string" ? [...it].length : it.length ?? it.size)
const py_any = (it) => py_list(it).some(py_truth)
const py_all = (it) => py_list(it).every(py_truth)
const py_sum = (it) => py_list(it).reduce((total, each) => total + Number(each), 0)
const py_prod = (it) => py_list(it).reduce((total, each) => total * each, 1)
const py_next = (it, otherwise) => { const [first = otherwise] = py_list(it); return first }
const py_enumerate = (it) => py_list(it).map((each, i) => [i, each])
const py_zip = (first, ...others) => py_list(first).slice(0, Math.min(...others.map(py_len))).map((it, i) => [it, ...others.map((each) => py_list(each)[i])])
const py_dict = (it) => new Map(it instanceof Map ? it : py_list(it))
const py_fromkeys = (_, keys) => new Map(py_list(keys).map((key) => [key, null]))
const py_int = (it) => Math.trunc(Number(it))
const py_isinstance = (it, kind) => (kind === py_str ? typeof it === "string" : kind === py_list ? Array.isArray(it) : kind === py_int ? Number.isInteger(it) : it instanceof kind)

// Methods: the value comes first.
const py_get = (map, key, otherwise = null) => (map.has(key) ? map.get(key) : otherwise)
const py_items = (map) => [...map]
const py_values = (map) => [...map.values()]
const py_setdefault = (map, key, value) => (map.has(key) || map.set(key, value), map.get(key))
const py_append = (array, it) => { array.push(it) }
const py_pop = (array) => array.pop()
const py_index = (array, it) => (typeof array === "string" ? array.indexOf(it) : array.findIndex((each) => py_same(each, it)))
const py_lower = (said) => said.toLowerCase()
const py_upper = (said) => said.toUpperCase()
const py_isdigit = (said) => /^\d+$/.test(said)
const py_isidentifier = (said) => /^[\p{XIDS}_]\p{XIDC}*$/u.test(said)
const py_endswith = (said, its) => py_list(typeof its === "string" ? [its] : its).some((each) => said.endsWith(each))
const py_removesuffix = (said, its) => (its && said.endsWith(its) ? said.slice(0, -its.length) : said)
const py_replace = (said, one, other) => said.replaceAll(one, () => other)
const py_join = (sign, parts) => py_list(parts).map(py_str).join(sign)
const any = (signs) => `[${signs?.replace(/[\]\\^-]/g, "\\$&") ?? "\\s"}]+`
const py_strip = (said, signs) => said.replace(all(`^${any(signs)}|${any(signs)}$`), "")
const py_split = (said, sign) => (sign === undefined ? said.split(/\s+/).filter(Boolean) : said.split(sign))
const py_format = (said, ...given) => {
  let n = 0
  return said.replace(/\{(\w*)\}/g, (_, name) => py_str(name === "" ? given[n++] : /^\d/.test(name) ? given[name] : given.at(-1)[name]))
}
const py__replace = (value, changed) => Object.assign(Object.create(Object.getPrototypeOf(value)), value, changed)

// Patterns, as qkv.reading._patterns has them: letters and digits are ASCII's, and a sign is never halved.
const [first, inLines, inAnyCase, all] = ["u", "mu", "i", "gu"].map((flags) => py_cache((said) => new RegExp(said, flags)))
const whole = py_cache((said) => new RegExp(`^(?:${said})$`, "u"))
const py_search = (said, text, { lines, case: exact = true } = {}) => (lines ? inLines : exact ? first : inAnyCase)(said).exec(text)
const py_fullmatch = (said, text) => whole(said).exec(text)
const py_findall = (its, said) => [...said.matchAll(all(its))].map(([whole, ...groups]) => (groups.length > 1 ? groups.map((it) => it ?? "") : groups[0] ?? whole))
const by = (said) => (typeof said === "string" ? (...found) => said.replace(/\\(\d|g<0>|\\)/g, (_, n) => (n === "\\" ? n : found[n === "g<0>" ? 0 : n] ?? "")) : (...found) => said(found))
const py_sub = (its, said, text) => text.replace(all(its), by(said))
const py_cut = (its, said) => said.split(all(its))
const py_normalize = (said) => said.normalize("NFKC")

const py_pairwise = (it) => py_list(it).slice(1).map((each, i) => [py_list(it)[i], each])
const py_map = (change, it) => py_list(it).map((each) => change(each))
