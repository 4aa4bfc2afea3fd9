// Which Q? — the index of questions, filtered by what is typed. Without this script the list stands
// there whole.

import { element } from "./element.js"

// "W_1^Q" is one word as it is typed, and as a formula's letters follow each other.
const joined = (word) => word.replace(/[_^{}]/g, "")
const typedWords = (text) => text.toLowerCase().normalize("NFKD").split(/[^\p{L}\p{N}_^{}.]+/u).map(joined).filter(Boolean)

/** A question with its answer, as the words that a reader may type: names whole and in parts. */
function entry(item) {
  const copy = item.cloneNode(true)
  for (const small of copy.querySelectorAll(".wq-aside, .wq-unseen")) small.remove()
  for (const math of copy.querySelectorAll("math")) math.replaceWith(math.textContent.replace(/\s/g, ""))
  const text = copy.textContent
  return { item, words: [...typedWords(text), ...typedWords(text.replace(/[_.]/g, " "))] }
}

const has = (entry, typed) => typed.every((word) => entry.words.some((each) => each.startsWith(word)))

function begin(top) {
  const article = top.closest("article")
  const entries = [...article.querySelectorAll(":scope > ul > li")].map(entry)
  const field = element("input", { id: "wq-filter", type: "search", autocomplete: "off", spellcheck: false })
  const label = element("label", { htmlFor: field.id }, `Filter the ${entries.length} questions`)
  const status = element("div", { role: "status" })

  field.addEventListener("input", () => {
    const typed = typedWords(field.value)
    for (const each of entries) each.item.hidden = !has(each, typed)
    const left = entries.filter(({ item }) => !item.hidden).length
    hideEmpty(article, Boolean(typed.length))
    status.replaceChildren(...(typed.length ? said(left, field.value) : []))
  })
  top.after(element("div", { className: "wq-filter" }, label, field, status))
}

/** Headings and other lines stand above questions; above none they say nothing. */
function hideEmpty(article, filtered) {
  const blocks = [...article.querySelectorAll(":scope > :is(h2, h3, ul, p)")]
  let shown = { H2: false, H3: false }
  for (const block of blocks.reverse()) {
    if (block.tagName === "UL") {
      block.hidden = ![...block.children].some((item) => !item.hidden)
      if (!block.hidden) shown = { H2: true, H3: true }
    } else if (block.tagName in shown) {
      block.hidden = filtered && !shown[block.tagName]
      shown.H3 = false
      if (block.tagName === "H2") shown.H2 = false
    }
  }
}

function said(left, typed) {
  if (left) return [`${left} ${left === 1 ? "question has" : "questions have"} these words.`]
  const search = element("a", { href: `?q=${encodeURIComponent(typed)}` }, "Search all pages")
  return ["No question has these words. ", search, " for them, or try fewer words."]
}

const top = document.getElementById("filter")
if (top) begin(top)
