// Which Q? — the choice of a notation. No page needs this to be read: without it, formulas stand in
// the site's own. That formulas follow the choice, before anything is drawn, is in the theme's
// main.html.

const root = document.documentElement
const choice = document.querySelector("[data-wq-notation]")

function show(notation) {
  if (notation === "site") delete root.dataset.notation
  else root.dataset.notation = notation
  choice.value = notation
}

choice.value = root.dataset.notation ?? "site"
choice.addEventListener("change", () => {
  show(choice.value)
  try {
    localStorage.setItem("notation", choice.value)
  } catch {
    // Storage may be off; the choice then lasts as long as the page.
  }
  const address = new URL(location)
  if (address.searchParams.has("notation")) {
    address.searchParams.set("notation", choice.value)
    history.replaceState(history.state, "", address)
  }
})

// A link such as ?notation=ng-multi-head may also be followed without loading the page anew.
function followLink() {
  const wanted = new URLSearchParams(location.search).get("notation")
  if ([...choice.options].some(({ value }) => value === wanted)) show(wanted)
}

window.document$.subscribe(followLink)
