// Which Q? — computes formulas on small matrices. The build parsed them: a formula comes as a tree, made by
// src/qkv_site/parts/trees.py. A node is a list, its kind first: ["Product", left, right].
//
// A world has `sizes`, a number for each size; `shapes`, of each role its sizes as trees; and `values`, of
// each role its rows of numbers, or those of each head where each head has its own.

/** Two factors that do not fit, with the sizes that would have to be equal. */
export class Misfit extends Error {
  constructor(...sides) {
    super(`${sides.map(nameOf).join(" and ")} have to be equal`)
    this.sides = sides
  }
}

const HEADS = ["Symbol", "h"] // how many there are

/** The number that a size is. */
export function sizeOf([kind, ...parts], sizes) {
  switch (kind) {
    case "Symbol": return known(sizes, parts[0], "size")
    case "Times": return sizeOf(parts[0], sizes) * sizeOf(parts[1], sizes)
  }
  throw unknown(kind)
}

/** What a size of a shape is called, as Python writes it: a letter, or a product of sizes. */
const nameOf = ([kind, ...parts]) => (kind === "Times" ? parts.map(nameOf).join(" * ") : parts[0])

/** The sizes of what a tree gives, as trees; or a Misfit. */
export function shapeOf([kind, ...parts], world) {
  const shape = (part) => shapeOf(part, world)
  switch (kind) {
    case "Symbol": return known(world.shapes, parts[0], "role")
    case "Transpose": return [...shape(parts[0])].reverse()
    case "OverRoot": return shape(parts[0])
    case "Product": {
      const [left, right] = parts.map(shape)
      if (sizeOf(left[1], world.sizes) !== sizeOf(right[0], world.sizes)) throw new Misfit(left[1], right[0])
      return [left[0], right[1]]
    }
    case "Softmax": return shape(parts[0])
    case "Concat": {
      const [rows, columns] = shape(parts[0])
      return [rows, ["Times", HEADS, columns]]
    }
  }
  throw unknown(kind)
}

/** What a tree gives, for one head; or a Misfit. */
export function valueOf(tree, world, head = 0) {
  shapeOf(tree, world)
  return compute(tree, world, head)
}

function compute([kind, ...parts], world, head) {
  const value = (part) => compute(part, world, head)
  switch (kind) {
    case "Symbol": return ofHead(known(world.values, parts[0], "role"), parts[0], head)
    case "Transpose": return transpose(value(parts[0]))
    case "OverRoot": return scale(value(parts[0]), 1 / Math.sqrt(sizeOf(parts[1], world.sizes)))
    case "Product": return product(...parts.map(value))
    case "Softmax": return softmax(value(parts[0]))
    case "Concat": {
      const all = Array.from({ length: sizeOf(HEADS, world.sizes) }, (_, i) => compute(parts[0], world, i))
      return all[0].map((_, row) => all.flatMap((one) => one[row]))
    }
  }
  throw unknown(kind)
}

/** Of a role that each head has: what this head has. */
const ofHead = (values, key, head) => (key.endsWith("[i]") ? known(values, head, `head of ${key}`) : values)

const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0)
const transpose = (a) => a[0].map((_, column) => a.map((row) => row[column]))
const scale = (a, factor) => a.map((row) => row.map((each) => each * factor))
const product = (a, b) => a.map((row) => transpose(b).map((column) => dot(row, column)))

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

const unknown = (name) => new Error(`${name} is no part of a formula that is computed here.`)
