// Which Q? — an address that lies in a tab opens the tab.

function openTab() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  const block = target?.closest(".tabbed-block")
  if (!block) return
  const place = [...block.parentElement.children].indexOf(block)
  block.closest(".tabbed-set").querySelectorAll(":scope > input")[place].checked = true
  target.scrollIntoView()
}

openTab()
window.addEventListener("hashchange", openTab)
