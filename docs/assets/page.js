// Which Q? — what the scripts of single pages begin with.

/** Begin once with each such element, also where its page is reached without a reload; last in a script. */
export function onPage(selector, begin) {
  const begun = new WeakSet()
  window.document$.subscribe(() => {
    for (const root of document.querySelectorAll(selector)) {
      if (!begun.has(root)) begin(root)
      begun.add(root)
    }
  })
}
