// Which Q? — the words of a text, as the search compares them.

// Qᵀ is Q^T, √d_k is sqrt d_k, W_i^{Q} is W_i^Q, 1,050,624 is 1050624.
const plain = (text) =>
  text
    .replaceAll("√", " sqrt ")
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[\u0300-\u036f\u200b]/g, "")
    .replace(/([_^])\{(\w+)\}/g, "$1$2")
    .replace(/(?<=\d),(?=\d{3})/g, "")

/** The words of a text. A name counts whole and in its parts: keypaddingmask, key, padding and mask. */
export function words(text) {
  return (plain(text).match(/[\p{L}\p{N}][\p{L}\p{N}_^.]*/gu) ?? []).flatMap((name) => {
    // A point between digits is the number's own.
    const parts = /[_^.]/.test(name) ? name.split(/[_^]|(?<!\d)\.|\.(?!\d)/).filter(Boolean) : [name]
    return parts.length > 1 ? [parts.join(""), ...parts] : parts
  })
}
