// Which Q? — the choice of a notation. No page needs this to be read: without it, formulas stand in
// the site's own. That formulas follow the choice, before anything is drawn, is in the theme's
// main.html. What a link asks for holds for the visit; what a reader chooses holds until the next choice.

import { copied } from "./element.js"

const root = document.documentElement
const choice = document.querySelector("[data-wq-notation]")

/** The notation that is chosen. */
export const chosenNotation = () => root.dataset.notation ?? "site"

const known = (notation) => [...choice.options].some(({ value }) => value === notation)

function show(notation) {
  if (notation === "site") delete root.dataset.notation
  else root.dataset.notation = notation
  choice.value = notation
}

/** Storage may be off; a choice then lasts as long as the page. */
function stored(act) {
  try {
    return act()
  } catch {
    return null
  }
}

function choose(notation) {
  show(notation)
  stored(() => sessionStorage.setItem("notation", notation))
  stored(() => localStorage.setItem("notation", notation))
  const address = new URL(location)
  if (address.searchParams.has("notation")) {
    address.searchParams.set("notation", notation)
    history.replaceState(history.state, "", address)
  }
}

async function copyLink(button) {
  const address = new URL(location)
  address.searchParams.set("notation", choice.value)
  const said = button.innerHTML
  const done = await copied(address)
  if (!done) history.replaceState(history.state, "", address)
  button.textContent = done ? "Copied" : "Copy it from the address bar"
  setTimeout(() => (button.innerHTML = said), 3000)
}

choice.value = chosenNotation()
choice.addEventListener("change", () => choose(choice.value))
document.addEventListener("click", ({ target }) => {
  if (target.closest?.("[data-wq-copy]")) copyLink(target.closest("button"))
  if (!target.closest?.("[data-wq-back]")) return
  choose("site")
  choice.focus() // the button is gone
})

// A page that a browser kept while another one was shown was not there when the reader chose.
window.addEventListener("pageshow", ({ persisted }) => {
  const wanted = stored(() => sessionStorage.getItem("notation"))
  if (persisted && known(wanted)) show(wanted)
})
