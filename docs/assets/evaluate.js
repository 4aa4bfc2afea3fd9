// Which Q? — computes formulas on small matrices. The build parsed them: a formula comes as a tree, made by
// src/qkv_site/parts/trees.py. A node is a list, its kind first: ["Product", left, right].
//
// A world has `sizes`, a number for each size, and `values`, of each role its rows of numbers, or those of each
// head where each head has its own.

/** Two factors that do not fit: the numbers of columns and of rows that would have to be equal. */
export class Misfit extends Error {
  constructor(...sides) {
    super(`${sides.join(" and ")} have to be equal`)
    this.sides = sides
  }
}

/** What a tree gives, for one head; or a Misfit. */
export function valueOf([kind, ...parts], world, head = 0) {
  const value = (part) => valueOf(part, world, head)
  switch (kind) {
    case "Symbol": return ofHead(known(world.values, parts[0], "role"), parts[0], head)
    case "Transpose": return transpose(value(parts[0]))
    case "OverRoot": return scale(value(parts[0]), 1 / Math.sqrt(known(world.sizes, parts[1][1], "size")))
    case "Product": return product(...parts.map(value))
    case "Softmax": return softmax(value(parts[0]))
    case "Concat": {
      const all = Array.from({ length: world.sizes.h }, (_, i) => valueOf(parts[0], world, i))
      return all[0].map((_, row) => all.flatMap((one) => one[row]))
    }
  }
  throw new Error(`${kind} is no part of a formula that is computed here.`)
}

/** Of a role that each head has: what this head has. */
const ofHead = (values, key, head) => (key.endsWith("[i]") ? known(values, head, `head of ${key}`) : values)

const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0)
const transpose = (a) => a[0].map((_, column) => a.map((row) => row[column]))
const scale = (a, factor) => a.map((row) => row.map((each) => each * factor))

function product(a, b) {
  if (a[0].length !== b.length) throw new Misfit(a[0].length, b.length)
  return a.map((row) => transpose(b).map((column) => dot(row, column)))
}

/** Positive numbers whose sum is one, in each row; the largest is taken away first, so that none is too large. */
function softmax(a) {
  return a.map((row) => {
    const powers = row.map((each) => Math.exp(each - Math.max(...row)))
    const sum = powers.reduce((total, each) => total + each, 0)
    return powers.map((each) => each / sum)
  })
}

function known(all, name, what) {
  if (!Object.hasOwn(all, name)) throw new Error(`No ${what} is called ${name}: known are ${Object.keys(all).join(", ")}.`)
  return all[name]
}
