// Which Q? — the line that installs the package gets the address that this page is read at: of the
// published site, of one that is served, or of a copy on a disk. No module: from a disk, none runs.

{
  const { src, dataset } = document.currentScript
  const wheel = new URL(encodeURIComponent(dataset.wheel), src).href
  // In an address these stand for themselves; a shell would read them as its own.
  const address = wheel.replace(/[^\w:/.%[\]-]/g, (letter) => `%${letter.charCodeAt().toString(16).toUpperCase()}`)
  for (const code of document.querySelectorAll(".wq-install pre code")) code.textContent = `pip install ${address}`
}
