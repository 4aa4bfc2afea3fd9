// Which Q? — the ledger, filtered by a kind of evidence: how many entries are shown, and where links lead. The filter is
// in ledger.css and needs no script.

import { linked, linkTo } from "./form.js"

const form = document.querySelector(".wq-kinds")
const choice = form.elements.kind
const status = form.querySelector("[role=status]")
const entries = [...form.closest("article").querySelectorAll("[data-kind]:is(li, details)")]
const links = [...document.querySelectorAll(".md-nav--secondary a[href*='#']")]

const targetOf = ({ hash }) => document.getElementById(decodeURIComponent(hash.slice(1)))

function show() {
  const all = choice.value === "all"
  const shown = entries.filter(({ dataset }) => all || dataset.kind === choice.value)
  status.textContent = all ? `${entries.length} entries` : `${shown.length} of ${entries.length} entries`
  for (const link of links) link.parentElement.hidden = targetOf(link)?.checkVisibility() === false
  linkTo({ kind: all ? "" : choice.value })
}

/** What an address leads to is shown, whatever was chosen. */
function reveal() {
  const target = targetOf(location)
  const part = target?.closest("[data-kind]") ?? target
  if (!part || part.checkVisibility()) return
  choice.value = "all"
  show()
  target.scrollIntoView()
}

const wanted = [...choice].find(({ value }) => value === linked("kind"))
if (wanted) wanted.checked = true
form.addEventListener("change", show)
window.addEventListener("hashchange", reveal)
show()
reveal()
