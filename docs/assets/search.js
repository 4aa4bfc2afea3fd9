// Which Q? — the search takes "^" for an operator: W^Q would be the word W, weighing Q. Before it reads
// what is typed, an accent that looks the same takes the sign's place; the search's separator in
// mkdocs.yml has both.

function protect({ target }) {
  if (!target.matches?.("[data-md-component=search-query]")) return
  for (let at; (at = target.value.indexOf("^")) >= 0; ) target.setRangeText("\u02c6", at, at + 1, "preserve")
}

for (const event of ["keyup", "focus"]) document.addEventListener(event, protect, { capture: true })
