// Which Q? — what the interactive pages share: sizes that a reader enters, and counts made of them.
// Whole numbers are BigInt throughout, so that every count is exact.

const MOST = 999_999_999n

/** What was entered cannot be used; `field` is the name of the size at fault. */
export class Refused extends Error {
  constructor(field, message) {
    super(message)
    this.field = field
  }
}

export function refuse(field, message) {
  throw new Refused(field, message)
}

/** The size that a text says, if it says one. */
export function read(text) {
  const number = /^\d+$/.test(text) ? BigInt(text) : 0n
  return number >= 1n && number <= MOST ? number : undefined
}

/** The size that a text says; refuses a text that says none. */
export function size(name, text) {
  const entered = text ? `is “${text}”` : "is empty"
  const expected = `a whole number from 1 to ${format(MOST)} is expected`
  return read(text) ?? refuse(name, `${name} ${entered}: ${expected}.`)
}

/** The sizes of a layer, by name, from texts; d_k and h_kv may be empty. */
export function layer(texts) {
  const d_model = size("d_model", texts.d_model)
  const h = size("h", texts.h)
  const d_k = texts.d_k ? size("d_k", texts.d_k) : headWidth(d_model, h)
  const h_kv = texts.h_kv ? size("h_kv", texts.h_kv) : h
  if (h % h_kv) {
    refuse("h_kv",
      `h_kv = ${h_kv} does not divide h = ${h}: each head of keys and values serves as many heads of queries. Expected is one of ${divisors(h).slice(0, 12).join(", ")}.`)
  }
  return { d_model, h, d_k, h_kv }
}

function headWidth(d_model, h) {
  if (d_model % h) {
    refuse("d_k",
      `d_k is empty, and d_model = ${d_model} is not divisible by h = ${h}: enter the width of one head.`)
  }
  return d_model / h
}

/** The value of a sum of products of sizes, as src/qkv_site/generated/exports.py writes it. */
export function evaluate(terms, sizes) {
  return terms
    .map(([coefficient, ...names]) =>
      names.reduce((product, name) => product * sizes[name], BigInt(coefficient)))
    .reduce((sum, product) => sum + product, 0n)
}

export const format = (number) => number.toLocaleString("en")

export function divisors(number) {
  const small = []
  for (let n = 1n; n * n <= number; n++) if (number % n === 0n) small.push(n)
  const large = small.map((n) => number / n).reverse()
  return [...new Set([...small, ...large])]
}

/** Mark the field at fault, if any, and say why; every other field is as it should be. */
export function mark(root, refused) {
  for (const input of root.querySelectorAll("[data-size]")) {
    const wrong = refused?.field === input.dataset.size
    input.setAttribute("aria-invalid", wrong)
    root.querySelector(`#${input.getAttribute("aria-describedby")}`).textContent = wrong ? refused.message : ""
  }
}

/** The page's address with these parameters, an empty one left out; all others stay. */
export function linkTo(parameters) {
  const address = new URL(location)
  for (const [name, value] of Object.entries(parameters)) {
    if (value) address.searchParams.set(name, value)
    else address.searchParams.delete(name)
  }
  history.replaceState(history.state, "", address)
}

/** Begin on every page that has such an element, also when it is reached without a reload. */
export function onPage(selector, file, begin) {
  const address = new URL(file, import.meta.url)
  window.document$.subscribe(async () => {
    const root = document.querySelector(selector)
    if (!root) return
    const answer = await fetch(address).catch(() => ({ ok: false }))
    const data = answer.ok && (await answer.json())
    if (!data) root.textContent = `${address} could not be loaded. Reload the page to try again.`
    else if (!root.childElementCount) begin(root, data)
  })
}
