// Which Q? — the search takes "^" for an operator: W^Q would be the word W, weighing Q. It reads its
// field twice over, so what it reads there has the sign protected twice; what is shown is as typed.

const field = document.querySelector("[data-md-component=search-query]")
const { get, set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")

Object.defineProperty(field, "value", {
  get() {
    return get.call(this).replaceAll("^", "\\\\\\^")
  },
  set,
})
