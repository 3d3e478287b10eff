// What the theme leaves out for people without a mouse: each block of code is a landmark there,
// which needs a name of its own, and a wide table can only be scrolled where it takes the focus.
"use strict";

let count = 0;
const complete = () => {
  for (const one of document.querySelectorAll(".md-code__nav:not([aria-label])")) {
    count += 1;
    one.setAttribute("aria-label", `Code block ${count}`);
  }
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  }
};

addEventListener("resize", complete);
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
complete();
