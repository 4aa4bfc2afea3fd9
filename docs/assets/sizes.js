// Which Q? — sizes of a layer: read from texts, checked, multiplied and added. Whole numbers are
// BigInt throughout, so that every count is exact.

import { refuse, result } from "./form.js"

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

/** The size that a text says; refuses a text that says none. */
export function size(name, text) {
  if (!text) refuse(name, `Type ${WANTED[name]}.`)
  return read(text) ?? refuse(name, `${name} is “${text}”: a whole number from 1 to ${format(MOST)} is expected.`)
}

/** What is wrong with the sizes of a layer: with each by itself, or else with one beside the others.
 * Some may be left out. */
export function faults(texts, needed, optional, changed) {
  const entered = [...needed, ...optional.filter((name) => texts[name])]
  const found = entered.map((name) => result(() => size(name, texts[name]))[1])
  if (!found.some(Boolean)) found.push(result(() => layer(texts, changed))[1])
  return found.filter(Boolean)
}

/** The sizes of a layer, by name, from texts; d_k and h_kv may be empty. What does not fit together
 * is said at the field that was changed. */
export function layer(texts, changed = "") {
  const d_model = size("d_model", texts.d_model)
  const h = size("h", texts.h)
  const d_k = texts.d_k ? size("d_k", texts.d_k) : headWidth(d_model, h, changed)
  const h_kv = texts.h_kv ? size("h_kv", texts.h_kv) : h
  if (h % h_kv) {
    refuse(changed === "h" ? "h" : "h_kv",
      `${h} heads cannot share ${h_kv} evenly: choose h_kv = ${nearest(h_kv, divisors(h))}${changed === "h" ? `, or h = ${nearestMultiple(h, h_kv)}` : ""}.`)
  }
  return { d_model, h, d_k, h_kv }
}

function headWidth(d_model, h, changed) {
  if (d_model % h === 0n) return d_model / h
  const heads = nearest(h, divisors(d_model))
  const instead = changed === "d_model"
    ? `d_model = ${nearestMultiple(d_model, h)}`
    : `${heads} ${heads === 1n ? "head" : "heads"}`
  refuse(changed === "d_model" || changed === "d_k" ? changed : "h",
    `${d_model} cannot be divided evenly by ${h}. Try ${instead}, or choose d_k.`)
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
