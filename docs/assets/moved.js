// Which Q? — a page has moved: the letters that a link asks for move with it, and so does its heading.

// A statement or a name of the package has an id that is unique on the site; the statements have a list of where
// each is. Any other id may mean something else on the new page, so it leads on where the list of redirects says so.
const link = document.querySelector("a")
const id = decodeURIComponent(location.hash.slice(1))
const there = new URL(JSON.parse(link.dataset.headings)[id] ?? link.href, location.href)
there.search = location.search
if (/^(claim-|qkv)/.test(id)) there.hash = location.hash
const placeOf = async () => (await import("./places.js")).placeOf(id)
location.replace((id.startsWith("claim-") && (await placeOf().catch(() => null))) || there)
