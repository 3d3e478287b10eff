// The words of the segment that is pointed at, below the picture of the log.
"use strict";

const detail = document.getElementById("detail");
const before = detail.textContent;

for (const shape of document.querySelectorAll(".shape")) {
  const words = shape.querySelector("title")?.textContent ?? "";
  const show = () => { detail.textContent = words; };
  const hide = () => { detail.textContent = before; };
  shape.addEventListener("pointerenter", show);
  shape.addEventListener("pointerleave", hide);
  shape.addEventListener("focus", show);
  shape.addEventListener("blur", hide);
}
