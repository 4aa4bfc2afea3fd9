// Which Q? — where each statement and each test is: a file that the build writes.

/** The address of a statement or a test, with the letters that this address asks for; null if there is none. */
export async function placeOf(id) {
  const name = id.replace(/^claim-/, "")
  const pages = await fetch(new URL("claims.json", import.meta.url)).then((it) => it.json())
  for (const [page, ids] of Object.entries(pages)) {
    const part = [name, `claim-${name}`, `known-${name}`].find((each) => ids.includes(each))
    if (part) return Object.assign(new URL(`../${page}`, import.meta.url), { search: location.search, hash: part })
  }
  return null
}
