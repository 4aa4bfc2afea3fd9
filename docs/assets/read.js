// Which Q? — what was typed, read: first of which kind it is, then its readings, as cards. It is the room
// src/qkv/reading again, and goes by the same data; a test compares the two.

import { bare, fit, marksOf, number, prepare as prepareFit, sourceOf, usual, World } from "./fit.js"
import { alike, empty, error, inWords, name, prepare as prepareOthers, shapes, unknownName } from "./others.js"
import { knownWords, leavesOf, parse, prepare as prepareTree, put, Refused, same, walk } from "./tree.js"

export { Refused }

const CARDS = 3
const MOST = 2000 // characters
let D, M, T

/** What reading goes by: the build writes it from the data of qkv.reading. */
export function prepare(given) {
  D = given.data
  M = given.messages
  T = given
  prepareTree(D)
  prepareFit(given)
  prepareOthers(given)
}

/** Whether a letter of attention or a function of it stands in a line. */
const isKnown = (node) => walk(node).some(([kind, it]) =>
  (kind === "leaf" && (usual(it).kind || usual(it).length)) || (kind === "fn" && ["attention", "multihead"].includes(it)))

function isAttention(world, lines) {
  const roles = Object.values(world.roles).filter(Boolean).map(bare)
  const unknown = Object.keys(world.roles).length - roles.length
  const faults = [...world.faults.values()]
  const made = [...world.results, ...Object.values(world.made)].map(({ role }) => bare(role))
  const ours = world.ours || [...roles, ...made].some((role) => new RegExp(D.ours.roles).test(role))
    || Object.keys({ ...world.roles, ...world.made }).some((leaf) => new RegExp(`^${D.ours.letters}`).test(leaf)) || [...world.notes.values()].some((each) => ["toy", "cut", "join"].includes(each))
  const steps = world.steps || world.near || faults.some((each) => ["view", "einsum", "swap"].includes(each)) || !(world.loose || faults.length)
  const unread = lines.flatMap(walk).some(([kind, it]) => kind === "fn" && it === "unread")
  return steps && ours && !(unread && faults.length) && unknown <= (world.steps && !faults.length ? Math.floor(roles.length / 2) : 0)
}

/** What each letter is, in words; of a weight also which head's. */
function lettersOf(world) {
  const said = {}
  for (const [leaf, role] of [...Object.entries(world.roles), ...Object.entries(world.made).map(([leaf, it]) => [leaf, it.role])]) {
    if (!(bare(role) in T.role)) continue
    const { says } = T.role[bare(role)], heads = marksOf(leaf).match(/\d/g) ?? []
    said[world.shown[leaf]] = heads.length === 1 && role[0] === "W" ? says.replaceAll("one head's", `head ${heads[0]}'s`) : says
  }
  return said
}

function card(world, lines, calls, complete) {
  const { shown } = world
  const roles = Object.entries(world.roles).map(([leaf, role]) => [leaf, bare(role)])
  const has = roles.map(([, role]) => role)
  const kinds = [...Object.entries(D.kinds), ...has.filter((role) => role && "WPM".includes(role[0])).map((role) => [role, "weight"])]
  const [wanted, which] = kinds.find(([role]) => has.includes(role)) ?? ["", "none"]
  const letter = shown[wanted && roles.find(([, role]) => role === wanted)[0]] ?? ""
  const its = world.natural(world.results.at(-1)), last = its.with({ role: bare(its.role) })
  const shape = last.shape.includes("1") ? "" : last.shape.map((size) => size.replaceAll(" * ", "·")).join(" × ")
  let gives = last.role in T.role && !has.includes(last.role) ? T.role[last.role].meaning : ""
  let title = put(D.which[which], letter, T.base)
  if (wanted === "X" && gives) [title, gives] = [put(D.which.made, letter, gives), ""]
  if (wanted.startsWith("W_O")) title = put(D.which.output, letter)
  if (world.faults.size) gives = ""
  const inputs = Object.values(Object.fromEntries(roles.filter(([, role]) => role === "X").map(([leaf]) => [sourceOf(leaf), shown[leaf]])))
  const two = inputs.length === 2 ? [put(D.notes.two, ...inputs)] : []
  const tokens = world.open ? "open" : world.columns ? "columns" : "rows"
  const result = gives ? [put(D.which[shape ? "shaped" : "result"], gives, shape)] : []
  const remarks = world.names.filter((each) => each in D.remark).map((each) => D.remark[each])
  const line = complete && !world.faults.size && !two.length ? world.lines() : [""]
  const reasons = [...world.faults.values(), ...world.notes.values(), ...world.names, ...has, which]
  return {
    ...empty, kind: "formula", title, which, tokens, texts: line.every(Boolean) ? world.names.map((each) => T.texts[each].where) : [],
    letters: lettersOf(world), wrong: [...world.faults.keys()],
    says: [...result, D.which[tokens], ...world.notes.keys(), ...two, ...calls, ...remarks],
    line: line.every(Boolean) ? line.join("; ") : "", page: D.page[reasons.find((reason) => reason in D.page)],
    write: (columns, how) => new World(lines, world.roles, shown, world.columns, world.code, world.one, how).lines(columns),
  }
}

/** The readings of a formula, the likeliest first, what was not read, and why there is none. */
function formulas(typed) {
  let { lines, shown, left, code } = parse(typed)
  const size = lines.length === 1 && lines[0][0] === "leaf" && number(lines[0][1])
  if (size && size in T.base) {
    const title = put(D.which.size, shown[lines[0][1]], T.role[size]?.meaning, T.base[size])
    return [typed.length > 1 ? [{ ...empty, kind: "formula", title, which: "size", page: D.page.size }] : [], left, ""]
  }
  if (code && lines.length > 1) {
    const others = lines.filter((line) => !isKnown(line.at(-1)))
    lines = lines.filter((line) => !others.includes(line))
    left.push(...others.flatMap((line) => leavesOf(line.at(-1))).map((leaf) => shown[leaf]).filter(Boolean))
  }
  const calls = Object.keys(D.calls).filter((pattern) => new RegExp(pattern).test(typed)).map((pattern) => D.calls[pattern])
  const [first, ...worlds] = lines.some(isKnown) ? fit(lines, shown, code) : []
  const strange = first ? Object.entries(first.roles).filter(([, role]) => !role).map(([leaf]) => shown[leaf]) : []
  const unread = [...new Set([...left, ...strange])].filter((each) => /[\p{L}\p{N}_]/u.test(each))
  if (!first || !isAttention(first, lines)) {
    const why = unread.length ? put(D.refused.strange, unread.join(", ")) : D.refused.steps
    const ours = first?.ours || leavesOf(...lines).some((leaf) => usual(leaf).kind || new RegExp(`^${D.ours.letters}`).test(leaf))
    return [[], unread, put(D.refused[ours ? "partly" : "formula"], typed, why, calls.join(" ")).trim()]
  }
  const kept = new Map()
  for (const world of [first, ...worlds]) {
    const roles = JSON.stringify(Object.values(world.roles).map(bare))
    if (kept.size && first.faults.size) break
    if (kept.has(roles) && same(kept.get(roles).key.slice(0, -1), world.key.slice(0, -1))) {
      kept.get(roles).open = true
      kept.get(roles).names.push(...world.names)
    }
    if (kept.size < CARDS && !kept.has(roles)) kept.set(roles, world)
  }
  const cards = [...kept.values()].map((world) => card(world, lines, calls, !left.length))
  const once = cards.filter((each, i) => !i || (each.line && !cards.slice(0, i).some((it) => it.title === each.title && it.line === each.line)))
  return [once, unread, ""]
}

/** What was typed: its readings, the likeliest first, and why there is none or what decides. */
export function read(text) {
  const typed = text.replace(new RegExp(M.words.marks, "g"), "").trim()
  if (!typed) throw new Refused(D.refused.empty)
  const length = [...typed].length
  if (length > MOST) throw new Refused(put(D.refused.long, length, MOST))
  for (const attempt of [error, shapes, name]) {
    const reading = attempt(typed)
    if (reading) return { readings: [reading], says: "", unread: [] }
  }
  const isError = new RegExp(M.words.error).test(typed)
  const said = isError ? M.words.message : unknownName(typed)
  const isWords = !new RegExp(D.statement, "m").test(typed) && inWords(typed)
  if (said || isWords) return { readings: [], says: said, unread: [], words: !said }
  const [readings, left, none] = formulas(typed)
  const unread = [...new Set(left)]
  const kinds = readings.slice(0, 2).map(({ which }) => which).sort().join(" ")
  const decides = readings.length > 1 && kinds in D.which ? put(D.which.decides, D.which[kinds]) : ""
  const why = none || put(D.refused[unread.length ? "unread" : "formula"], unread.join(", ") || typed)
  return { readings, unread, says: unread.length || !readings.length ? [why, ...alike(unread, knownWords())].join(" ") : decides }
}
