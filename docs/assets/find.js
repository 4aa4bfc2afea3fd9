// Which Q? — finds the heading that answers, of each page at most one. MiniSearch ranks: the more of the
// typed words a section has, the rarer they are and the better the place where they stand, the earlier it comes.

import MiniSearch from "./vendor/minisearch.js"

const BOOST = { asked: 4, title: 3, page: 1.5 } // beside a section's text and code, and what its page is about
const HITS = 8
const ALIKE = 2 / 3 // of the words of a question and of what was typed, the rarer the heavier, as many are in both
const SOME = 20 // sections whose questions are compared with what was typed
const NOWHERE = 5 // words that are named

// Words that all sentences have: they are left out of what is looked for, unless there is no other.
const LITTLE = new Set(
  `a an and are as at be but by do does for from has have i if in is it its my of on or so than that the then there these this to was
  us we will with you your`.split(/\s+/),
)

// Qᵀ is Q^T, √d_k is sqrt d_k, W_i^{Q} is W_i^Q, 1,050,624 is 1050624.
const plain = (text) =>
  text
    .replaceAll("√", " sqrt ")
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[\u0300-\u036f\u200b]/g, "")
    .replace(/\b(what|who|how|where|it|that)['’]?s\b/g, "$1") // what's, whats
    .replace(/\b(can|is|are|do|does)n?['’]?t\b/g, "$1 not")
    .replace(/([_^])\{(\w+)\}/g, "$1$2")
    .replace(/(?<=\d),(?=\d{3})/g, "")

/** The words of a text. A name counts whole and, if wanted, in its parts: keypaddingmask, key, padding and mask. */
function words(text, whole) {
  return (plain(text).match(/[\p{L}\p{N}][\p{L}\p{N}_^.]*/gu) ?? []).flatMap((name) => {
    // A point between digits is the number's own.
    const parts = /[_^.]/.test(name) ? name.split(/[_^]|(?<!\d)\.|\.(?!\d)/).filter(Boolean) : [name]
    return parts.length > 1 ? [parts.join(""), ...(whole ? [] : parts)] : parts
  })
}

function telling(typed, whole) {
  const all = [...new Set(words(typed, whole))]
  const some = all.filter((word) => !LITTLE.has(word))
  return some.length ? some : all
}

/** What `find` goes by, from the sections of all pages. */
export function prepare({ pages, sections }) {
  const known = new Map() // of each word, how often questions have it
  const tokenize = (text, field) => words(text).map((word) => (known.set(word, (known.get(word) ?? 0) + (field === "asked")), word))
  const index = new MiniSearch({ fields: ["asked", "title", "page", "about", "text", "code"], tokenize })
  index.addAll(
    sections.map(([number, id, heading, text, code, asked], place) => {
      const { title: name, tags, about } = pages[number]
      const title = id.startsWith("qkv.") ? `${heading} ${id}` : id ? heading : `${heading} ${name}` // an id of the reference is a name
      return { id: place, asked: asked.join("\n"), title, page: `${name} ${tags}`, about, text, code }
    }),
  )
  return { index, known, pages, sections }
}

/** How alike a line is to what was typed, from 0 to 1: words that are in both, the rarer the heavier. */
function likeness(known, many, typed) {
  const all = telling(typed, true)
  const weight = (all) => all.reduce((sum, word) => sum + Math.log(1 + many / (0.5 + (known.get(word) ?? 0))), 0)
  return (line) => {
    const own = telling(line, true)
    const wanted = all.map((word) => (known.has(word) ? word : (own.find((it) => it.slice(0, 4) === word.slice(0, 4)) ?? word))) // a slip's first letters are right
    return (2 * weight(own.filter((word) => wanted.includes(word)))) / (weight(wanted) + weight(own))
  }
}

/** The best section of each page that has any of the words, which words stand nowhere, and the card of a question that is alike. */
export function find({ index, known, pages, sections }, typed) {
  const prefix = (_, place, all) => place === all.length - 1 // the last word may not be whole yet
  const fuzzy = (word) => !known.has(word) && word.length > 4 && 2 // letters of a slip
  const found = index.search(typed, { tokenize: (typed) => telling(typed), boost: BOOST, prefix, fuzzy })
  const like = likeness(known, sections.length, typed)
  const first = found.splice(0, SOME).map((result) => ({ ...result, alike: sections[result.id][5].map(like) }))
  const most = ({ alike }) => Math.max(ALIKE, ...alike)
  found.unshift(...first.sort((a, b) => most(b) - most(a))) // much the same words were asked for
  const best = new Map() // of each page
  for (const result of found) if (!best.has(sections[result.id][0])) best.set(sections[result.id][0], result)
  const hits = [...best.values()].slice(0, HITS).map(({ id: place, terms }) => {
    const [page, id, heading, text] = sections[place]
    const { url, title, about } = pages[page]
    const names = (id ? [heading, title] : [title]).map((name) => marked(name, terms))
    return { address: id ? `${url}#${id}` : url, names, excerpt: excerpt(text || about, terms) }
  })
  const matched = new Set(found.flatMap(({ queryTerms }) => queryTerms))
  const names = typed.match(/(?<![\\\p{L}\p{N}])[\p{L}\p{N}][\p{L}\p{N}\p{M}_^.{}]*/gu) ?? [] // without LaTeX's commands
  const unmatched = names.filter((name) => /[^\p{Ll}]|.{5}/u.test(name) && !matched.has(words(name)[0]) && !LITTLE.has(words(name)[0]))
  const nowhere = [...new Set(unmatched)].slice(0, NOWHERE)
  return { hits, nowhere, more: best.size > HITS, questions: question(pages, sections, first) }
}

/** A card with the question of the index that was asked in much the same words, and its short answer; or none. */
function question(pages, sections, first) {
  const lines = first.flatMap(({ id, alike }) => sections[id][5].map((line, i, all) => ({ id, line, most: alike[i], said: all[i + 1] })))
  const answered = lines.filter(({ line, most, said }) => most > ALIKE && said?.startsWith(`${line} `)) // a question stands before itself with its answer
  return answered.sort((a, b) => b.most - a.most).slice(0, 1).map(({ id, line, said }) => {
    const [page, anchor] = sections[id], { url, title } = pages[page]
    return { kind: "question", title: line, says: [said.slice(line.length + 1)], address: [anchor ? `${url}#${anchor}` : url, title] }
  })
}

/** A text in parts, and of each whether it is one of these words. */
function marked(text, terms) {
  return text.split(/(\s+)/).map((said) => ({ said, found: words(said).some((word) => terms.includes(word)) }))
}

/** Of a section's lines the one that has most of these words, cut to its length, in parts. */
function excerpt(text, terms) {
  const found = (said) => new Set(words(said).filter((word) => terms.includes(word))).size
  const lines = text.split("\n").map((line) => ({ line, worth: found(line) + Math.min(1, line.length / 80) }))
  const { line } = lines.reduce((one, other) => (other.worth > one.worth ? other : one))
  return marked(line.replace(/^Short answer\. /, "").replace(/^(?=.{220})(.{1,219}) .*/, "$1 …"), terms)
}
