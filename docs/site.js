// What the theme leaves out for people without a mouse: each block of code is a landmark there,
// which needs a name of its own, and a wide table can only be scrolled where it takes the focus.
//
// The button that copies a block of commands takes the commands alone, without prompts and output;
// and a page that was opened as a file says why the search finds nothing there.
"use strict";

const commandsOf = (text) => {
  const commands = [];
  let isContinued = false;
  for (const line of text.split("\n")) {
    if (isContinued) commands.push(line);
    else if (line.startsWith("$ ")) commands.push(line.slice(2));
    else continue;
    isContinued = line.endsWith("\\");
  }
  return commands.join("\n");
};

let count = 0;
const complete = () => {
  for (const one of document.querySelectorAll(".md-code__nav:not([aria-label])")) {
    count += 1;
    one.setAttribute("aria-label", `Code block ${count}`);
  }
  for (const one of document.querySelectorAll(".language-console:not([data-copy])")) {
    const commands = commandsOf(one.querySelector("code")?.textContent ?? "");
    if (commands) one.dataset.copy = commands;
  }
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  }
};

const sayHowToServe = () => {
  const note = document.createElement("p");
  note.className = "site-of-files";
  note.textContent =
    "Opened as a file: the search needs a server, such as python3 -m http.server -d build/site";
  document.querySelector("article")?.prepend(note);
};

if (typeof document === "undefined") module.exports = { commandsOf }; // In a test.
else {
  addEventListener("resize", complete);
  new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
  complete();
  if (location.protocol === "file:") sayHowToServe();
}
