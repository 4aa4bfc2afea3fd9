// Which Q? — an element with its properties and children in one expression, and what is copied.

/** Whether the browser let a text be copied. */
export const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch { return false } // without https there is no clipboard
}

export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}
