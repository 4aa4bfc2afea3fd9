// Which Q? — computes formulas on small matrices. The build parsed them: a formula comes as a tree, made by
// src/qkv_site/markdown/trees.py. A node is a list, its kind first: ["Product", left, right].
//
// A world has `sizes`, a number for each size; `shapes`, of each role its sizes as trees; and `values`, of
// each role its rows of numbers, or those of each head where each head has its own.

/** Two parts of a node that do not fit, with their shapes, and the sizes that would have to be equal: one of each part,
 * along an axis of its shape. */
export class Misfit extends Error {
  constructor(tree, parts, shapes, axes) {
    const sides = shapes.map((shape, i) => shape[axes[i]])
    super(`${sides.map(nameOf).join(" and ")} have to be equal`)
    Object.assign(this, { tree, parts, shapes, axes, sides })
  }
}

const HEADS = ["Symbol", "h"] // how many there are
const ARITHMETIC = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "**": (a, b) => a ** b,
}

/** The number that a size is. */
export function sizeOf([kind, ...parts], sizes) {
  switch (kind) {
    case "Number": return parts[0]
    case "Symbol": return known(sizes, parts[0], "size")
    case "Root": return Math.sqrt(sizeOf(parts[0], sizes))
    case "Arithmetic": return ARITHMETIC[parts[0]](sizeOf(parts[1], sizes), sizeOf(parts[2], sizes))
  }
  throw unknown(kind)
}

/** What a size of a shape is called, as Python writes it: a letter, or a product of sizes. */
export function nameOf([kind, ...parts]) {
  if (kind !== "Arithmetic") return String(parts[0])
  const [sign, left, right] = parts
  const second = nameOf(right)
  return `${nameOf(left)} ${sign} ${right[0] === "Arithmetic" ? `(${second})` : second}`
}

/** The sizes of what a tree gives, as trees; or a Misfit. */
export function shapeOf(tree, world) {
  const [kind, ...parts] = tree
  const { sizes } = world
  const shape = (part) => shapeOf(part, world)
  switch (kind) {
    case "Symbol": return known(world.shapes, parts[0], "role")
    case "Transpose": return [...shape(parts[0])].reverse()
    case "OverRoot": return shape(parts[0])
    case "Product": {
      const [left, right] = parts.map(shape)
      meet(tree, parts, [left, right], [1, 0], sizes)
      return [left[0], right[1]]
    }
    case "Sum": {
      const [left, right] = parts.map(shape)
      left.forEach((_, axis) => meet(tree, parts, [left, right], [axis, axis], sizes))
      return left
    }
    case "Apply": {
      const [name, ...given] = parts
      const shapes = given.map(shape)
      if (name === "softmax") return shapes[0]
      if (name !== "attention") throw unknown(name)
      const [queries, keys, values] = shapes
      meet(tree, given.slice(0, 2), [queries, keys], [1, 1], sizes)
      meet(tree, given.slice(1), [keys, values], [0, 0], sizes)
      return [queries[0], values[1]]
    }
    case "OverHeads": {
      const [how, each] = parts
      const [rows, columns] = shape(each)
      if (how === "sum") return [rows, columns]
      return how === "stack" ? [["Arithmetic", "*", HEADS, rows], columns] : [rows, ["Arithmetic", "*", HEADS, columns]]
    }
  }
  throw unknown(kind)
}

function meet(tree, parts, shapes, axes, sizes) {
  const [one, other] = shapes.map((shape, i) => sizeOf(shape[axes[i]], sizes))
  if (one !== other) throw new Misfit(tree, parts, shapes, axes)
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
    case "Sum": return plus(...parts.map(value))
    case "Apply": return parts[0] === "softmax" ? softmax(value(parts[1])) : attention(...parts.slice(1).map(value))
    case "OverHeads": {
      const [how, each] = parts
      const all = Array.from({ length: sizeOf(HEADS, world.sizes) }, (_, i) => compute(each, world, i))
      if (how === "sum") return all.reduce(plus)
      return how === "stack" ? all.flat() : all[0].map((_, row) => all.flatMap((one) => one[row]))
    }
  }
  throw unknown(kind)
}

/** Of a role that each head has: what this head has. */
const ofHead = (values, key, head) => (key.endsWith("[i]") ? known(values, head, `head of ${key}`) : values)

const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0)
const transpose = (a) => a[0].map((_, column) => a.map((row) => row[column]))
const scale = (a, factor) => a.map((row) => row.map((each) => each * factor))
const plus = (a, b) => a.map((row, i) => row.map((each, j) => each + b[i][j]))
const product = (a, b) => a.map((row) => transpose(b).map((column) => dot(row, column)))
const attention = (queries, keys, values) =>
  product(softmax(scale(product(queries, transpose(keys)), 1 / Math.sqrt(keys[0].length))), values)

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
