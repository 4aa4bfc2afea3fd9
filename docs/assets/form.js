// Which Q? — the explorer's form: fields that hold sizes, a mistake shown
// at its field, and the state in the page's address.

import { element } from "./element.js"

/** The form's fields by their names. */
export const fieldsOf = (form) =>
  Object.fromEntries([...form.querySelectorAll("[data-size]")].map((field) => [field.dataset.size, field]))

/** What stands in the fields, by their names. */
export const textsOf = (fields) =>
  Object.fromEntries(Object.entries(fields).map(([name, { value }]) => [name, value.trim()]))

/** Mark each field at fault, and say why; every other field is as it should be. */
export function mark(fields, wrong) {
  for (const [name, field] of Object.entries(fields)) {
    const fault = wrong.find((each) => each.field === name)
    field.setAttribute("aria-invalid", Boolean(fault))
    document.getElementById(field.getAttribute("aria-describedby")).replaceChildren(...(fault ? asLabelled(fault, field) : []))
  }
}

/** A mistake, with what the label calls the size in place of its name; what was entered stays text. */
function asLabelled({ message, field: name }, field) {
  if (!message.startsWith(`${name} `)) return [message]
  return [field.labels[0].firstElementChild.cloneNode(true), message.slice(name.length)]
}

/** Tell a screen reader what is wrong, which others see at the fields; and all, what they still see. */
export function tellFaults(status, wrong, still) {
  const messages = wrong.map(({ message }) => message).join(" ")
  status.replaceChildren(element("span", { className: "wq-unseen" }, `${messages} `), still)
}

// A link says "heads" for h.
const parameter = (name) => (name === "h" ? "heads" : name)

/** What the page's address says of this name, or null. */
export const linked = (name) => new URLSearchParams(location.search).get(parameter(name))

/** Put these parameters into the page's address, an empty one left out; all others stay. */
export function linkTo(parameters) {
  const address = new URL(location)
  for (const [name, value] of Object.entries(parameters)) {
    if (value) address.searchParams.set(parameter(name), value)
    else address.searchParams.delete(parameter(name))
  }
  history.replaceState(history.state, "", address)
}
