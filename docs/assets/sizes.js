// Which Q? — sizes of a layer: read from texts, checked, multiplied and added. Whole numbers are
// BigInt throughout, so that every count is exact.

const MOST = 999_999_999n

/** The size that a text says, if it says one. */
export function read(text) {
  const number = /^\d+$/.test(text) ? BigInt(text) : 0n
  return number >= 1n && number <= MOST ? number : undefined
}

const WANTED = {
  n: "the number of tokens, for example 100",
  d_model: "the width of the source, for example 512",
  h: "the number of heads, for example 8",
  h_kv: "the number of heads of keys and values, for example 2",
}

/** What is wrong with the text of a size by itself; a width of one head may be left out. */
export function faultOf(name, text) {
  if (!text) return name in WANTED ? `Type ${WANTED[name]}.` : ""
  return read(text) ? "" : `${name} is “${text}”: a whole number from 1 to ${format(MOST)} is expected.`
}

/** The sizes that the texts of a layer say, and what is wrong: with each by itself, or else with one beside the others.
 * That is said at the field that was changed. */
export function sizesOf(texts, changed) {
  const wrong = Object.keys(texts).map((field) => ({ field, message: faultOf(field, texts[field]) }))
    .filter(({ message }) => message)
  if (wrong.length) return [undefined, wrong]
  const given = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, read(text)]))
  const { d_model, h, d_k = d_model / h, h_kv = h } = given
  const misfit = (!given.d_k && headWidth(d_model, h, changed)) || shared(h, h_kv, changed)
  return misfit ? [undefined, [misfit]] : [{ ...given, d_k, h_kv }, []]
}

/** What is wrong with a width that heads share, if they do so unevenly. */
function headWidth(d_model, h, changed) {
  if (d_model % h === 0n) return undefined
  const heads = nearest(h, divisors(d_model))
  const instead = changed === "d_model"
    ? `d_model = ${nearestMultiple(d_model, h)}`
    : `${heads} ${heads === 1n ? "head" : "heads"}`
  return {
    field: changed === "d_model" || changed === "d_k" ? changed : "h",
    message: `${d_model} cannot be divided evenly by ${h}. Try ${instead}, or choose d_k.`,
  }
}

/** What is wrong with heads of keys, if heads of queries share them unevenly. */
function shared(h, h_kv, changed) {
  if (h % h_kv === 0n) return undefined
  const other = changed === "h" ? `, or h = ${nearestMultiple(h, h_kv)}` : ""
  return {
    field: changed === "h" ? "h" : "h_kv",
    message: `${h} heads cannot share ${h_kv} evenly: choose h_kv = ${nearest(h_kv, divisors(h))}${other}.`,
  }
}

const nearest = (number, candidates) =>
  candidates.reduce((best, each) => (distance(each, number) <= distance(best, number) ? each : best))
const distance = (a, b) => (a > b ? a - b : b - a)
const nearestMultiple = (number, of) => ((number + of / 2n) / of || 1n) * of

/** The value of a sum of products of sizes, such as "2 n h d_k + 1 n n". */
export function evaluate(sum, sizes) {
  return sum
    .split(" + ")
    .map((product) => product.split(" ").reduce((value, factor) => value * (sizes[factor] ?? BigInt(factor)), 1n))
    .reduce((total, value) => total + value, 0n)
}

export const format = (number) => number.toLocaleString("en")

export function divisors(number) {
  const small = []
  for (let n = 1n; n * n <= number; n++) if (number % n === 0n) small.push(n)
  const large = small.map((n) => number / n).reverse()
  return [...new Set([...small, ...large])]
}
