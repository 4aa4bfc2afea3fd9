// Which Q? — what the search is asked for, where that is not what was typed. It takes each word for the
// beginning of one: "a" would be answer, Andrew and already, so words that say nothing are left out, and
// a letter of attention is that letter alone. It takes "^" for an operator, W^Q would be the word W,
// weighing Q, and it reads its words twice over: the sign is protected twice. And W1Q is W_1^Q.

const LITTLE = new Set("a an and are be by do does for i if in is it my of on or the there to was what".split(" "))

function asked(typed) {
  const words = typed.split(/\s+/)
  const said = words.filter((word) => !LITTLE.has(word.toLowerCase()))
  return (said.some(Boolean) ? said : words)
    .map((word) => word.replace(/^w_?([1-9ih])[_^]*([qkv])\b/i, "W_$1^$2").replaceAll("^", "\\\\\\^"))
    .map((word) => word.replace(/^[hknqvx]\??$/i, "$&^1"))
    .join(" ")
}

const { postMessage } = Worker.prototype

Worker.prototype.postMessage = function (message, ...rest) {
  const query = typeof message?.data === "string"
  postMessage.call(this, query ? { ...message, data: asked(message.data) } : message, ...rest)
}
