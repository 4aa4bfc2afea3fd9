// Which Q? — an address of a statement or of a test, from the time when all stood on this page, leads to its place.

import { placeOf } from "./places.js"

const id = decodeURIComponent(location.hash.slice(1))
if (id && !document.getElementById(id)) {
  const there = await placeOf(id)
  if (there) location.replace(there)
}
