// Which Q? — what was typed, read by the reader that the build writes from src/qkv/reading.

import * as py from "./python.js"
import { reader } from "./reader.js"

let its, signs

export function prepare({ data, messages, tables }) {
  const known = py.mapped(tables)
  its = reader(py, py.mapped(data), py.mapped(messages), () => known)
  signs = py.mapped(data.signs.letters)
}

/** Whether what was typed has a mistake in it that can be named. */
export const isRefused = (error) => error instanceof its.RefusedError

/** Its readings, the likeliest first, why there is none or what decides, and whether it is words. */
export function read(text) {
  const [readings, says, unread, words] = its.answer(text)
  return { readings, says, unread, words }
}

/** The lines of a reading, with what writes a role and a size. */
export const lines = ({ trees }, columns, role, size) => trees.map((tree) => its.written(tree, columns, role, size, signs))
