// Which Q? — the choice of a notation, and symbols that point out their like. No page needs this
// to be read: without it, formulas stand in the site's own notation. That formulas follow the choice,
// before anything is drawn, is in the theme's main.html.

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
  queueMicrotask(makeScrollersFocusable) // once the formulas have changed
})

// A link such as ?notation=ng-multi-head may also be followed without loading the page anew.
function followLink() {
  const wanted = new URLSearchParams(location.search).get("notation")
  if ([...choice.options].some(({ value }) => value === wanted)) show(wanted)
}

function makeScrollersFocusable() {
  for (const box of document.querySelectorAll(".math-display, .md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
    else box.removeAttribute("tabindex")
  }
}

let pointedOut = []

function pointOut(event) {
  for (const symbol of pointedOut) symbol.classList.remove("wq-same")
  const role = event.target.closest?.("[data-role]")?.dataset.role
  pointedOut = role ? [...document.querySelectorAll(`[data-role="${CSS.escape(role)}"]`)] : []
  for (const symbol of pointedOut) symbol.classList.add("wq-same")
}

document.addEventListener("pointerover", pointOut)
document.addEventListener("focusin", pointOut)

window.document$.subscribe(() => {
  followLink()
  makeScrollersFocusable()
})

// The search takes W^Q for the word W with the weight Q, and finds nothing. It reads what is typed
// twice, so the sign is protected twice.
const post = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  const query = message?.type === 2 && message.data
  if (query) message = { ...message, data: query.replaceAll("^", "\\\\\\^") }
  return post.call(this, message, ...rest)
}
