// Which Q? — the self-test. The page holds each question as a form and, in a fold-out, the right
// answer; here a choice is marked. Nothing is sent or stored.

import { element } from "./element.js"
import { onPage } from "./page.js"

function begin(result) {
  const questions = [...document.querySelectorAll(".wq-question")]
  for (const question of questions) ask(question, () => score(questions, result))
  score(questions, result)
}

const pageOf = (question) => question.querySelector(".wq-again").cloneNode(true)

function ask(question, onChange) {
  const form = question.querySelector("form")
  const status = form.querySelector("[role=status]")

  form.addEventListener("change", () => {
    delete question.dataset.marked
    status.replaceChildren()
    onChange()
  })
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    if (form.querySelector(".wq-right :checked")) {
      question.dataset.marked = "right"
      status.replaceChildren("Right.")
      question.querySelector("details").open = true
    } else {
      question.dataset.marked = "wrong"
      question.dataset.missed = ""
      status.replaceChildren("Not this one. Read again: ", pageOf(question))
    }
    onChange()
  })
}

function score(questions, result) {
  const right = questions.filter(({ dataset }) => dataset.marked === "right")
  const missed = questions.filter(({ dataset }) => "missed" in dataset).map(pageOf)
  const pages = new Map(missed.map((link) => [link.pathname, link])).values()
  result.replaceChildren(element("p", {}, `${right.length} of ${questions.length} right.`))
  if (missed.length) {
    result.append(element("p", {}, "Read again:"))
    result.append(element("ul", {}, ...[...pages].map((link) => element("li", {}, link))))
  }
}

onPage(".wq-result", begin)
