// Which Q? — finds the heading that answers, of each page at most one. Nothing here touches the page:
// `prepare` takes the sections of all pages as words, `find` ranks them for what was typed.

// Words that say nothing of attention. A letter of attention says something, so q, k, v, x and h stay.
const LITTLE = new Set(
  `a about after all am an and any are as at be been before both but by can could did difference do does doing done for from
  get gets give gives go goes got had has have how i if in into is it its itself just let like make makes me mean means
  much my need no not of off on one only or other our out over really should so some such than that the their them
  then there these they this those through to too up us use used using very want was we were what when where which who
  why will with without work works would you your am`.split(/\s+/),
)

// What a word is worth where it stands, in the section that has it and in the sections of its page.
const WORTH = { title: 6, asked: 5, text: 1, code: 0.7, page: 2.2, about: 1.2 }
const ENOUGH = 3 // of a word; more of it adds little
const HITS = 8
const LEAST = 0.34 // of the best: what comes later is left out
const FITS = 0.3 // of what was asked has to stand in a section

const bare = (text) => text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f\u200b]/g, "").replace(/[’']s?\b/g, "")

/** A word without its ending: mask, masks, masked and masking are one. */
export function stem(word) {
  if (word.length < 4 || /[\d_^.]/.test(word)) return word
  let short = word
  if (/ies$/.test(short)) short = short.replace(/ies$/, "y")
  else if (/[^aius]s$/.test(short)) short = short.slice(0, -1)
  short = short.replace(/(?<=[a-z]{3})(ization|isation)$/, "iz").replace(/(?<=[a-z]{3})is(e[dr]?|ing)$/, "iz$1")
  const root = short.replace(/(?<=[a-z]{3})(ing|ed|ion|ly)$/, "").replace(/(?<=[a-z]{3})e$/, "")
  return root.replace(/([bdgklmnprt])\1$/, "$1")
}

const known = new Map() // words are few, and come often

/** The words of a text. A name counts whole and in its parts; W_1^Q is W_i^Q and W^Q, too. */
export function words(text) {
  return [...bare(text).matchAll(/[\p{L}\p{N}√][\p{L}\p{N}_^{}.\-]*/gu)].flatMap(([said]) => {
    if (!known.has(said)) known.set(said, forms_of(said))
    return known.get(said)
  })
}

function forms_of(said) {
  const name = said.replace(/[.\-_^{}]+$/, "")
  const joined = name.replace(/[_^{}\-.]/g, "")
  if (!joined) return []
  const parts = name.split(/[_.\-^{}]+/).filter((part) => part.length > 1 && part !== joined)
  const weight = /^w[1-9hij]([qkvo])$/.exec(joined) ?? /^w([qkvo])[1-9hij]$/.exec(joined)
  return [...[joined, ...parts].map(stem), ...(weight ? [`wi${weight[1]}`, `w${weight[1]}`] : [])]
}

// "MultiHead" is multi and head, too: in capitals a name has parts.
const parted = (text) => text.replace(/(\p{Ll})(\p{Lu}\p{Ll})/gu, "$1$2 $1-$2")

function count(text, worth, into) {
  for (const word of words(text)) into.set(word, (into.get(word) ?? 0) + worth)
}

/** What `find` goes by, from the sections of all pages. */
export function prepare({ pages, sections, same }) {
  const places = new Map() // of each word, the sections that have it, and what it is worth there
  const own = new Map() // of each word, in how many sections it stands itself
  const lengths = sections.map(([, , , text]) => text.length)
  const usual = lengths.reduce((sum, each) => sum + each, 0) / lengths.length
  sections.forEach(([number, id, title, text, code, asked], place) => {
    const page = pages[number]
    const worth = new Map()
    const long = 0.4 + (0.6 * lengths[place]) / usual
    count(parted(title), WORTH.title, worth)
    count(asked.join(" "), WORTH.asked / Math.sqrt(Math.max(1, asked.length)), worth)
    count(text, WORTH.text / long, worth)
    count(code, WORTH.code / long, worth)
    for (const word of worth.keys()) own.set(word, (own.get(word) ?? 0) + 1)
    count(parted(page.title), id ? WORTH.page : WORTH.title, worth)
    count(page.about, id ? WORTH.about : 2 * WORTH.about, worth)
    for (const [word, amount] of worth) {
      if (!places.has(word)) places.set(word, new Map())
      places.get(word).set(place, amount / (amount + ENOUGH))
    }
  })
  const rare = (word) => {
    const times = own.get(word) ?? 1
    return Math.log(1 + (sections.length - times + 0.5) / (times + 0.5))
  }
  const groups = same.map((group) => group.map((phrase) => words(phrase)))
  return { pages, sections, places, rare, groups, vocabulary: [...places.keys()] }
}

/** The words of a question that say something; all of them, if none does. */
function said(typed) {
  const all = typed.trim().split(/\s+/).filter(Boolean)
  const telling = all.filter((word) => !LITTLE.has(bare(word).replace(/[^\p{L}\p{N}_^]/gu, "")))
  return telling.length ? telling : all
}

/** What may stand for a word: itself, longer words that begin with it, one that was meant. */
function forms(index, word, last) {
  const found = index.places.has(word) ? [[word, 1]] : []
  if (word.length > 2 || (last && word.length > 1)) {
    const longer = index.vocabulary.filter((each) => each.startsWith(word) && each !== word)
    found.push(...longer.map((each) => [each, (last ? 0.8 : 0.5) * Math.sqrt(word.length / each.length)]))
  }
  if (!found.length && word.length > 4 && /^[a-z]+$/.test(word)) {
    const near = index.vocabulary.filter((each) => each[0] === word[0] && distance(each, word) <= (word.length > 7 ? 2 : 1))
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

/** Of each section, how well it has a word, in any of its forms. */
function wherever(index, word, last) {
  const best = new Map()
  for (const [form, share] of forms(index, word, last)) {
    for (const [place, amount] of index.places.get(form)) {
      best.set(place, Math.max(best.get(place) ?? 0, share * amount))
    }
  }
  return best
}

/** Phrases that mean what some of the words say: which words, and the other phrases. */
function meant(index, asked) {
  const found = []
  for (const group of index.groups) {
    for (const phrase of group) {
      const at = asked.findIndex((_, i) => phrase.every((word, n) => asked[i + n] === word))
      if (at >= 0 && phrase.length) found.push({ at, until: at + phrase.length, others: group.filter((each) => each !== phrase) })
    }
  }
  return found
}

/** The best section of each page that fits, the best first, and the words that stand nowhere. */
export function find(index, typed) {
  const told = said(typed)
  const asked = told.map((word) => words(word))
  const last = /\S$/.test(typed) ? told.length - 1 : -1
  const flat = asked.flat()
  const scores = new Map(), covered = new Map()
  const nowhere = []
  let whole = 0
  asked.forEach((parts, number) => {
    const [name, ...rest] = parts
    if (!name) return
    let best = wherever(index, name, number === last)
    const important = rest.length ? Math.max(index.rare(name), ...rest.map(index.rare)) : index.rare(name)
    // the parts of a name, together, stand for it
    if (rest.length) {
      const each = rest.map((part) => wherever(index, part, false))
      for (const [place] of each[0]) {
        const together = each.reduce((sum, one) => sum + (one.get(place) ?? 0), 0) / each.length
        if (each.every((one) => one.has(place)) || !best.size) raise(best, place, 0.7 * together)
      }
    }
    for (const { at, until, others } of meant(index, flat)) {
      const start = asked.slice(0, number).flat().length
      if (at > start || until <= start) continue
      for (const phrase of others) {
        const each = phrase.map((word) => wherever(index, word, false))
        for (const [place] of each[0] ?? []) {
          if (!each.every((one) => one.has(place))) continue
          const together = each.reduce((sum, one) => sum + one.get(place), 0) / each.length
          raise(best, place, 0.55 * together)
        }
      }
    }
    if (!best.size) nowhere.push(told[number])
    whole += important
    for (const [place, amount] of best) {
      scores.set(place, (scores.get(place) ?? 0) + important * amount)
      covered.set(place, (covered.get(place) ?? 0) + important * Math.min(1, 2 * amount))
    }
  })
  const ranked = [...scores]
    .map(([place, score]) => {
      const [number, id] = index.sections[place]
      const share = covered.get(place) / whole
      return { place, share, score: score * share * index.pages[number].weight * (id ? 1 : 1.05), number }
    })
    .filter(({ share }) => share > FITS)
    .sort((one, other) => other.score - one.score)
  const seen = new Set()
  const hits = ranked.filter(({ number, score }) => {
    if (seen.has(number) || score < LEAST * ranked[0].score) return false
    return seen.add(number)
  })
  return { hits: hits.slice(0, HITS).map((hit) => ({ ...hit, ...told_of(index, hit.place) })), nowhere }
}

function raise(best, place, amount) {
  best.set(place, Math.max(best.get(place) ?? 0, amount))
}

function told_of(index, place) {
  const [number, id, heading, text] = index.sections[place]
  const { url, title } = index.pages[number]
  return { address: id ? `${url}#${id}` : url, title, heading: id ? heading : "", text }
}

/** Of a section's lines the one that says most of what was asked, cut to its length, in parts. */
export function excerpt(text, typed, most = 220) {
  const asked = new Set(said(typed).flatMap((word) => words(word)))
  const fits = (word) => words(word).some((each) => asked.has(each) || [...asked].some((one) => one.length > 3 && each.startsWith(one)))
  const lines = text.split("\n").map((line) => line.replace(/^Short answer\. /, "").split(" "))
  const worth = (line) => new Set(line.filter(fits).flatMap((word) => words(word))).size + Math.min(1, line.length / 12)
  const best = lines.reduce((one, other) => (worth(other) > worth(one) ? other : one))
  const first = Math.max(0, best.findIndex(fits))
  let from = best.slice(0, first + 1).join(" ").length > most / 2 ? Math.max(0, first - 8) : 0
  const parts = from ? [{ said: "… " }] : []
  for (let length = 0; from < best.length; from++) {
    length += best[from].length + 1
    if (length > most) {
      parts.push({ said: "…" })
      break
    }
    parts.push({ said: best[from], found: fits(best[from]) }, { said: " " })
  }
  return parts
}
