// Which Q? — the index of questions, filtered by what is typed. Without this script the list stands
// there whole.

import { element } from "./element.js"
import { words } from "./words.js"

const filter = document.querySelector(".wq-filter")
const [field, status] = ["input", "[role=status]"].map((part) => filter.querySelector(part))
const article = filter.closest("article")
const entries = [...article.querySelectorAll(":scope > ul > li")].map((item) => ({ item, words: words(textOf(item)) }))

/** A question with its answer; a formula is its letters, one after the other. */
function textOf(item) {
  const copy = item.cloneNode(true)
  for (const small of copy.querySelectorAll(".wq-aside, .wq-unseen")) small.remove()
  for (const math of copy.querySelectorAll("math")) math.replaceWith(math.textContent.replace(/\s/g, ""))
  return copy.textContent
}

function show() {
  const typed = field.value.split(/\s+/).map(words).filter(({ length }) => length)
  const counts = entries.map(({ words }) => typed.filter(([word]) => words.some((each) => each.startsWith(word))).length)
  const most = Math.max(...counts)
  const enough = most >= typed.length / 2 ? most : Infinity
  entries.forEach(({ item }, number) => (item.hidden = counts[number] < enough))
  hideEmpty(typed.length > 0)
  const left = counts.filter((count) => count >= enough).length
  status.replaceChildren(...(typed.length ? said(left, most === typed.length) : []))
}

/** Headings stand above questions; above none they say nothing. */
function hideEmpty(filtered) {
  const blocks = article.querySelectorAll(":scope > :is(h2, h3, ul)")
  const below = { H2: false, H3: false } // whether a question is left there
  for (const block of [...blocks].reverse()) {
    if (block.tagName === "UL") {
      block.hidden = [...block.children].every((item) => item.hidden)
      if (!block.hidden) below.H2 = below.H3 = true
    } else {
      block.hidden = filtered && !below[block.tagName]
      below.H3 = false
      if (block.tagName === "H2") below.H2 = false
    }
  }
}

function said(left, all) {
  if (left && all) return [`${left} of ${entries.length} questions ${left === 1 ? "has" : "have"} these words.`]
  const search = element("a", { href: `?q=${encodeURIComponent(field.value)}` }, "Search all pages")
  if (left) return [`No question has all of these words, ${left} ${left === 1 ? "has" : "have"} some. `, search, "."]
  return ["No question has these words. ", search, ", or try fewer words."]
}

field.addEventListener("input", show)
if (field.value) show() // a browser keeps what was typed
