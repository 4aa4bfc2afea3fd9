// Which Q? — the self-test. The page holds each question as a form and, in a fold-out, the right
// answer and what each wrong one is; here a choice is answered. Nothing is sent or stored.

import { element } from "./element.js"

const SAYS = {
  open: "not answered",
  first: "right at the first try",
  later: "right at a later try",
  wrong: "not right yet",
}

function begin(progress) {
  const questions = [...document.querySelectorAll(".wq-question")]
  const counted = questions.filter((question) => !question.closest(".wq-more"))
  const score = () => report(counted, progress, document.querySelector(".wq-result"))
  for (const question of questions) ask(question, score)
  score()
}

function ask(question, onChange) {
  const form = question.querySelector("form")
  const status = form.querySelector("[role=status]")

  form.addEventListener("change", () => {
    delete question.dataset.marked
    status.replaceChildren()
  })
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const chosen = form.querySelector(":checked")
    if (!chosen) return status.replaceChildren("Choose an answer first.")
    const right = Boolean(chosen.closest(".wq-right"))
    question.dataset.marked = right ? "right" : "wrong"
    if (right) {
      if (question.dataset.state !== "first") question.dataset.state = "state" in question.dataset ? "later" : "first"
      question.querySelector("details").open = true
      status.replaceChildren("Right.")
    } else {
      if (!question.dataset.state) question.dataset.state = "wrong"
      status.replaceChildren("No. ", ...reason(question, chosen.value))
    }
    onChange()
  })
}

/** What the fold-out says of a wrong choice, without its letter. */
function reason(question, place) {
  const said = question.querySelector(`[data-choice="${place}"]`).cloneNode(true)
  said.firstChild.textContent = said.firstChild.textContent.replace(/^[A-F]: /, "")
  return said.childNodes
}

function report(questions, progress, result) {
  const states = questions.map(({ dataset }) => dataset.state ?? "open")
  const count = (...wanted) => states.filter((state) => wanted.includes(state)).length
  const answered = count("first", "later", "wrong")
  const sentence = `${answered} of ${questions.length} answered${answered ? `, ${count("first")} right at the first try` : ""}.`
  progress.querySelectorAll("a").forEach((link, i) => {
    Object.assign(link, { className: `wq-${states[i]}`, ariaLabel: `Question ${i + 1}: ${SAYS[states[i]]}` })
  })
  progress.querySelector("p").textContent = sentence

  const missed = questions.filter((_, i) => ["later", "wrong"].includes(states[i]))
    .map((question) => question.querySelector(".wq-again").cloneNode(true))
  const pages = [...new Map(missed.map((link) => [link.pathname, link])).values()]
  result.hidden = !answered
  result.replaceChildren(element("p", {}, sentence))
  if (pages.length) {
    result.append(element("p", {}, "What you missed is explained here:"))
    result.append(element("ul", {}, ...pages.map((link) => element("li", {}, link))))
  }
}

begin(document.querySelector(".wq-progress"))
