// Which Q? — an address without a page: its last words are looked for.

import { hit, load } from "./box.js"

const near = document.querySelector("[data-wq-near]")
const last = decodeURIComponent(location.pathname).split("/").filter(Boolean).at(-1) ?? ""
const words = last.replace(/\.\w+$/, "").replace(/[^\p{L}\p{N}]+/gu, " ").trim()

const { find, index } = await load()
const { hits } = find(index, words)
near.querySelector("ol").replaceChildren(...hits.slice(0, 5).map(hit))
near.hidden = !hits.length
