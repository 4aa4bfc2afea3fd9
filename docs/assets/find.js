// Which Q? — finds the heading that answers, of each page at most one. Nothing here touches the page:
// `prepare` takes the sections of all pages as words, `find` ranks them for what was typed.

// Words that say nothing of attention. A letter of attention says something, so q, k, v, x and h stay.
const LITTLE = new Set(
  `a about after all am an and any applied apply are as at be been before both but by called can cant correct could did differ
  difference do does doesnt doing done dont exactly expect expects explain explained explanation for from get gets give gives
  go goes got had happen happens has have help how i if in into is isnt it its itself just know let like make makes matter
  matters me mean means much my necessary need needed needs no not of off on one only or other our out over please
  possible purpose purposes really reason reasons role roles should show so some such tell than that the their them then there these they this those through to
  too understand up us use used using versus very vs want was way ways we were what when where which who why will with work
  works would you your`.split(/\s+/),
)

// Words of which most sections are, and of which few questions are.
const TOPIC = new Set(
  "attention layer mechanism model multi multihead network self selfattention transformer".split(" ").map(stem),
)

// What a word is worth where it stands: in a heading, its text and its code, and in what its page says of itself.
const WORTH = { title: 8, text: 0.8, code: 0.6, page: 3, about: 1.2 }
const LINE = 2 // the best line that leads to a section, beside all its words
const FORM = 0.3 // and that it asks in the same small words: why, how many, what is
const ENOUGH = 3 // of a word; more of it adds little
const HITS = 8
const LEAST = 0.25 // of the best: what comes later is left out
const PARTS = 0.7 // the parts of a name, for the name
const MEANT = 0.5 // a word that means the same
const PHRASE = 0.7 // and of several words, which are seldom meant otherwise
const SOME = 20 // sections
const UNNAMED = 0.5 // what the Python reference says of a name, where the name was not typed

const bare = (text) => text.toLowerCase().replaceAll("√", "sqrt ").normalize("NFKD").replace(/[\u0300-\u036f\u200b]/g, "").replace(/[’']s?\b/g, "")

/** A word without its ending: mask, masks, masked and masking are one. */
export function stem(word) {
  if (word.length < 4 || /[\d_^.]/.test(word)) return word
  let short = word.replace(/(?<=tr)ices$/, "ix").replace(/^axes$/, "axis")
  if (/ies$/.test(short)) short = short.replace(/ies$/, "y")
  else if (/[^aius]s$/.test(short)) short = short.slice(0, -1)
  short = short.replace(/(?<=[a-z]{3})(ization|isation)$/, "iz").replace(/(?<=[a-z]{3})is(e[dr]?|ing)$/, "iz$1")
  const root = short.replace(/(?<=[a-z]{3})(ing|ed|ion|ly|ism)$/, "").replace(/(?<=[a-z]{3})e$/, "")
  return root.replace(/([bdgklmnprt])\1$/, "$1")
}

const known = new Map() // words are few, and come often

/** The words of a text. A name counts whole and in its parts; W_1^Q is W_i^Q and W^Q, too. */
export function words(text) {
  return [...bare(text).matchAll(/[\p{L}\p{N}][\p{L}\p{N}_^{}.\-]*/gu)].flatMap(([said]) => {
    if (!known.has(said)) known.set(said, partsOf(said))
    return known.get(said)
  })
}

const joined = (name) => name.replace(/[_^{}\-.]/g, "")

function partsOf(said) {
  const name = said.replace(/[.\-_^{}]+$/, "")
  const whole = joined(name)
  if (!whole) return []
  const parts = [...name.split(".").map(joined), ...name.split(/[_.\-^{}]+/)]
  const others = parts.filter((part) => part.length > 1 && part !== whole)
  const weight = name === "who" ? null : /^w[1-9hij]([qkvo])$/.exec(whole) ?? /^w([qkvo])[1-9hij]$/.exec(whole)
  return [...[whole, ...new Set(others)].map(stem), ...(weight ? [`wi${weight[1]}`, `w${weight[1]}`] : [])]
}

// "MultiHead" is multi and head, too: in capitals a name has parts.
const parted = (text) =>
  text.replace(/\p{L}*\p{Ll}\p{Lu}\p{Ll}\p{L}*/gu, (name) => `${name} ${name.replace(/(?<=\p{Ll})(?=\p{Lu}\p{Ll})/gu, " ")}`)

function count(text, worth, into) {
  for (const word of text) into.set(word, (into.get(word) ?? 0) + worth)
}

/** What `find` goes by, from the sections of all pages. */
export function prepare({ pages, sections, same }) {
  const lengths = sections.map(([, , , text]) => text.length)
  const usual = lengths.reduce((sum, each) => sum + each, 0) / lengths.length
  const places = new Map() // of each word, the sections that have it, and what it is worth there
  sections.forEach(([number, id, title, text, code], place) => {
    const { title: name, about, tags } = pages[number]
    const worth = new Map()
    const long = 0.4 + (0.6 * lengths[place]) / usual
    count(new Set(words(parted(id ? title : `${title} ${name}`))), WORTH.title, worth)
    count(words(text), WORTH.text / long, worth)
    count(words(code), WORTH.code / long, worth)
    count(new Set(words(parted(`${name} ${tags}`))), WORTH.page, worth)
    count(new Set(words(about)), WORTH.about, worth)
    note(worth, place, places)
  })
  const groups = same.map((group) => group.map((phrase) => told(phrase).flatMap((word) => words(word).slice(0, 1))))
  const index = { pages, sections, places, groups, forms: new Map(), vocabulary: new Set(places.keys()) }
  return { ...index, ...linesOf(index) }
}

/** The lines that lead to a section: its heading, and what people ask. Of each word, the lines that have it. */
function linesOf(index) {
  const lines = []
  const within = new Map()
  index.sections.forEach(([number, id, title, , , asked], place) => {
    for (const line of new Set([title, ...(id ? [] : [index.pages[number].title]), ...asked])) {
      const said = told(line).map((word) => words(word)[0] ?? "")
      const whole = said.reduce((sum, word) => sum + rarity(index, word, index.places.get(word)?.size ?? 0), 0)
      note(new Map(words(parted(line)).map((word) => [word, 1])), lines.length, within, 0)
      lines.push({ place, whole, little: little(line) })
    }
  })
  for (const word of within.keys()) index.vocabulary.add(word)
  return { lines, within }
}

function note(worth, place, into, enough = ENOUGH) {
  for (const [word, amount] of worth) {
    if (!into.has(word)) into.set(word, new Map())
    into.get(word).set(place, amount / (amount + enough))
  }
}

/** The words of a question that say something; all of them, if none does. */
function told(typed) {
  const all = typed.replaceAll("√", " sqrt ").match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}_^{}.\-'’]*/gu) ?? []
  const telling = all.filter((word) => !LITTLE.has(bare(word).replace(/[^\p{L}\p{N}_^]/gu, "")))
  return telling.length ? telling : all
}

/** The words that were left out. */
const little = (text) => new Set(bare(text).split(/[^\p{L}]+/u).filter((word) => LITTLE.has(word)))

/** What may stand for a word: itself, longer words that begin with it, one that was meant. */
function forms(index, word, last = false) {
  const name = `${word} ${last}`
  if (!index.forms.has(name)) index.forms.set(name, formsOf(index, word, last))
  return index.forms.get(name)
}

function formsOf(index, word, last) {
  const found = index.vocabulary.has(word) ? [[word, 1]] : []
  if (last && word.length > 1) {
    const longer = [...index.vocabulary].filter((each) => each.startsWith(word) && each !== word)
    found.push(...longer.map((each) => [each, 0.8 * Math.sqrt(word.length / each.length)]))
  }
  if (!found.length && word.length > 3 && /^[a-z]+$/.test(word)) {
    const most = word.length > 7 ? 2 : 1
    const near = [...index.vocabulary].filter((each) => each[0] === word[0] && distance(each, word) <= most)
    found.push(...near.map((each) => [each, 0.6]))
  }
  return found
}

/** How many letters differ, are missing or are swapped. */
function distance(one, other) {
  if (Math.abs(one.length - other.length) > 2) return 3
  let before, row = Array.from({ length: other.length + 1 }, (_, n) => n)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] !== other[j - 1]))
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1)
    }
    before = row
    row = next
  }
  return row[other.length]
}

/** Of each section, how well it has a word, in one of its forms. */
function wherever(places, forms) {
  const best = new Map()
  for (const [form, share] of forms) {
    for (const [place, amount] of places.get(form) ?? []) raise(best, place, share * amount)
  }
  return best
}

/** Of each section that has all of these words, how well it has them. */
function together(each) {
  const found = new Map()
  for (const place of each[0]?.keys() ?? []) {
    if (!each.every((one) => one.has(place))) continue
    found.set(place, each.reduce((sum, one) => sum + one.get(place), 0) / each.length)
  }
  return found
}

function raise(best, place, amount) {
  best.set(place, Math.max(best.get(place) ?? 0, amount))
}

/** Whether a phrase stands among the words at this place. */
const stands = (phrase, names, start) => start >= 0 && phrase.every((word, i) => names[start + i] === word)

/** Whether somebody who types this means a name in code, and not its words: d_model, key_padding_mask. */
const isName = (word) => /[a-z\d]{2}_|_[a-z\d]{2}/i.test(word)

/** What was asked, word for word: each in its forms, in its parts, and in phrases that mean the same. */
function understand(index, typed) {
  const asked = told(typed).flatMap((word) => apart(index, word))
  const names = asked.map((word) => words(word)[0] ?? "")
  const ends = typed.endsWith(asked.at(-1) ?? " ") // the last word may not be whole yet
  return asked.map((word, number) => {
    const [name, ...parts] = words(word)
    const others = meant(index, names, number)
    const own = name ? forms(index, name, ends && number === asked.length - 1) : []
    const pieces = isName(word) ? [] : parts.map((part) => forms(index, part))
    return { word, forms: own, parts: pieces, others, important: importance(index, name, own, pieces, others) }
  })
}

/** A name that stands nowhere, and is not known either, is read as its words: self.head_dim as head_dim. */
function apart(index, word) {
  const [name, ...parts] = words(word)
  if (word.includes(".") && !index.vocabulary.has(name)) return word.split(".").filter(Boolean).flatMap((part) => inWords(index, part))
  const listed = index.vocabulary.has(name) || index.groups.some((group) => group.some((phrase) => phrase.includes(name)))
  return isName(word) && parts.length && !listed ? [...new Set(parts)] : inWords(index, word)
}

/** A name in capitals that stands nowhere, as its words: TransformerDecoder as Transformer and Decoder. */
const inWords = (index, name) => (index.vocabulary.has(words(name)[0]) ? [name] : name.split(/(?<=\p{Ll})(?=\p{Lu}\p{Ll})/u))

/** The phrases that mean the same as one of which this word is a part. */
function meant(index, names, number) {
  const found = index.groups.flatMap((group) => {
    const typed = group.filter((phrase) => [...phrase.keys()].some((at) => stands(phrase, names, number - at)))
    const long = typed.some(({ length }) => length > 1)
    return typed.length ? [{ group, typed, long }] : []
  })
  return found.flatMap(({ group, typed, long }) =>
    group.map((phrase) => ({
      share: typed.includes(phrase) ? 1 : long ? PHRASE : MEANT,
      phrase: phrase.map((each) => forms(index, each)),
    })),
  )
}

/** How much a word of a question says. */
function importance(index, name, own, parts, others) {
  const found = [own, ...parts, ...others.flatMap(({ phrase }) => phrase)].find((each) => each.length) ?? []
  return rarity(index, name, wherever(index.places, found).size)
}

/** The fewer sections have a word, the more it says; a word of very few says no more than one of some. */
function rarity(index, word, times) {
  const share = (index.sections.length + 0.5) / (Math.max(SOME, times) + 0.5)
  return Math.log(1 + share) * (TOPIC.has(word) ? 0.5 : 1)
}

/** Whether a word, or what means the same, stands on a page. */
const stand = ({ forms, parts, others }) => [forms, ...parts, ...others.flatMap(({ phrase }) => phrase)].some((each) => each.length)

/** Of each place that has a word, how well it has it: itself, its parts, or what means the same. */
function having(places, { word, forms, parts, others }) {
  const best = wherever(places, forms)
  if (isName(word)) for (const [place, amount] of best) best.set(place, (1 + amount) / 2) // it is there, or is not
  for (const { phrase, share } of [{ phrase: parts, share: PARTS }, ...others]) {
    const each = phrase.map((one) => wherever(places, one))
    for (const [place, amount] of together(each)) raise(best, place, share * amount)
  }
  return best
}

/** Of each section, how well it fits, from 0 to 1: the words of a question, the more of them the better. */
function fitting(index, understood, all) {
  const fits = new Map()
  for (const asked of understood) {
    for (const [place, amount] of having(index.places, asked)) {
      const { score, share } = fits.get(place) ?? { score: 0, share: 0 }
      const most = Math.min(1, 2 * amount)
      fits.set(place, { score: score + (asked.important / all) * amount, share: share + (asked.important / all) * most })
    }
  }
  return new Map([...fits].map(([place, { score, share }]) => [place, score * share ** 2]))
}

/** Of each section, how well its best line fits: how much it has of the question, and how little beside it. */
function leading(index, understood, all, typed) {
  const fits = new Map()
  for (const asked of understood) {
    for (const [line, amount] of having(index.within, asked)) {
      fits.set(line, (fits.get(line) ?? 0) + asked.important * amount)
    }
  }
  const small = little(typed)
  const best = new Map()
  for (const [number, amount] of fits) {
    const line = index.lines[number]
    const both = [...line.little].filter((word) => small.has(word)).length
    const alike = both / Math.max(1, line.little.size + small.size - both)
    raise(best, line.place, (amount / all) ** 2 * Math.sqrt(Math.min(1, amount / line.whole)) * (1 + FORM * alike))
  }
  return best
}

/** Of an id of the Python reference, whether its name was typed: load, qkv.load, or qkv.costs for all in it. */
function naming(typed) {
  const names = told(typed).map(bare)
  return (id) => names.some((name) => name === bare(id).split(".").at(-1) || (name.startsWith("qkv.") && bare(id).startsWith(name)))
}

/** The best section of each page that fits, the best page first, and the words that stand nowhere. */
export function find(index, typed) {
  const understood = understand(index, typed)
  const all = understood.filter(stand).reduce((sum, { important }) => sum + important, 0)
  const texts = fitting(index, understood, all)
  const lines = leading(index, understood, all, typed)
  const pages = new Map() // of each, its best section
  const named = naming(typed)
  for (const place of new Set([...texts.keys(), ...lines.keys()])) {
    const [number, id] = index.sections[place]
    const fits = (texts.get(place) ?? 0) + LINE * (lines.get(place) ?? 0)
    const score = id.startsWith("qkv.") && !named(id) ? UNNAMED * fits : fits
    if (score > (pages.get(number)?.score ?? 0.1)) pages.set(number, { score, place })
  }
  const found = [...pages.values()].sort((one, other) => other.score - one.score)
  const fit = found.filter(({ score }) => score > LEAST * found[0].score)
  const hits = fit.slice(0, HITS).map(({ score, place }) => ({ score, ...hit(index, place) }))
  const names = told(typed).filter((word) => isName(word) && !word.includes(".") && !forms(index, words(word)[0]).length)
  const parts = new Set(names.flatMap(words))
  const others = understood.filter((each) => !stand(each) && !parts.has(words(each.word)[0])).map(({ word }) => word)
  return { hits, nowhere: [...names, ...others], more: fit.length > HITS }
}

function hit(index, place) {
  const [number, id, heading, text] = index.sections[place]
  const { url, title, about } = index.pages[number]
  return { address: id ? `${url}#${id}` : url, title, heading: id ? heading : "", text: text || about }
}

/** Whether a word of a text is one that was asked. */
function asks(typed) {
  const asked = new Set(told(typed).flatMap((word) => words(word)))
  return (word) => words(word).some((each) => asked.has(each) || [...asked].some((one) => one.length > 3 && each.startsWith(one)))
}

/** A text in parts, and of each whether it was asked. */
export function marked(text, typed) {
  const fits = asks(typed)
  return text.split(/(\s+)/).map((said) => ({ said, found: fits(said) }))
}

/** Of a section's lines the one that says most of what was asked, cut to its length, in parts. */
export function excerpt(text, typed, most = 220) {
  const fits = asks(typed)
  const lines = text.split("\n").map((line) => line.replace(/^Short answer\. /, "").split(" "))
  const worth = (line) => new Set(line.filter(fits).flatMap((word) => words(word))).size + Math.min(1, line.length / 12)
  const best = lines.reduce((one, other) => (worth(other) > worth(one) ? other : one))
  const first = Math.max(0, best.findIndex(fits))
  const from = best.slice(0, first + 1).join(" ").length > most / 2 ? Math.max(0, first - 8) : 0
  let until = from
  for (let length = 0; until < best.length && length + best[until].length < most; until++) length += best[until].length + 1
  const said = best.slice(from, until).join(" ")
  return marked(`${from ? "… " : ""}${said}${until < best.length ? " …" : ""}`, typed)
}
