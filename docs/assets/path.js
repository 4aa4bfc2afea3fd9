// Which Q? — the home page marks the page of the path that was opened last, so that a reader can go on there.

import { element } from "./element.js"

const list = document.querySelector("ol.wq-path")
try { // storage may be off
  if (document.querySelector("p.wq-path")) localStorage.setItem("path", location.pathname)
  const last = [...(list?.querySelectorAll("a") ?? [])].find(({ pathname }) => pathname === localStorage.getItem("path"))
  last?.after(element("span", { className: "wq-path-here" }, "go on here"))
} catch {}
