// Which Q? — a row that an address leads to is unfolded: its heading stands above what it opens to.

function unfold() {
  const named = document.getElementById(location.hash.slice(1))
  if (!named?.closest(".wq-layouts")) return
  let fold = named.closest("details") ?? named.nextElementSibling
  while (fold && !/^(details|h3)$/.test(fold.localName)) fold = fold.nextElementSibling
  if (fold?.localName === "details") fold.open = true
}

// The small map beside a title leads to the whole layer: the picture opens with the two videos.
function whole() {
  const paper = location.hash === "#map" && document.querySelector('#map [value="paper"]')
  if (paper) paper.checked = true
}

for (const go of [unfold, whole]) {
  addEventListener("hashchange", go)
  go()
}
