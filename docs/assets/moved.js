// Which Q? — a page has moved: the letters and the heading that a link asks for move with it.

const { href } = document.querySelector("a")
const there = new URL(href)
there.search = location.search
there.hash = location.hash || there.hash
location.replace(there)
