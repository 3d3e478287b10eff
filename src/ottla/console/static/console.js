// Keys, rows, links to share, and parts of a page that load again. Every page works without it.
"use strict";

document.documentElement.classList.add("scripted");

// The paths of the pages of one of several clusters begin with its root.
const root = document.documentElement.dataset.root ?? "";
const places = { o: "/", c: "/cluster", t: "/topics", g: "/groups", q: "/queues", x: "/transactions", a: "/users", r: "/schemas", j: "/jobs", s: "/settings" };
let awaitsPlace = false;

// On a narrow screen the menu is one line, which is moved to the entry of this page.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

function isTyping(event) {
  return event.target.closest("input, textarea, select, [contenteditable]") !== null;
}

function rows() {
  return [...document.querySelectorAll("table.rows tbody tr")].filter((row) => row.querySelector("a"));
}

function moveBy(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
  for (const row of all) row.classList.remove("at");
  next.classList.add("at");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (link !== null && !link.hidden) link.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) {
    if (event.key === "Escape" && isTyping(event)) event.target.blur();
    return;
  }
  if (document.querySelector("dialog[open]") !== null) return;
  if (awaitsPlace) {
    awaitsPlace = false;
    if (event.key in places) {
      event.preventDefault();
      location.href = root + places[event.key];
    }
    return;
  }
  const deeds = {
    "/": () => {
      const field = document.querySelector("[data-search]");
      if (field !== null) {
        field.focus();
        field.select();
      }
    },
    "?": () => document.getElementById("keys").showModal(),
    ".": () => follow("[data-stop]"),
    g: () => { awaitsPlace = true; },
    j: () => moveBy(1),
    k: () => moveBy(-1),
    n: () => follow("a[rel=next]"),
    p: () => follow("a[rel=prev]"),
  };
  if (event.key in deeds) {
    event.preventDefault();
    deeds[event.key]();
  }
});

document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-help]") !== null) {
    document.getElementById("keys").showModal();
  }
  const copy = event.target.closest("[data-copy-link], [data-copy]");
  if (copy !== null) {
    const words = copy.textContent;
    const part = copy.dataset.copy && document.querySelector(copy.dataset.copy);
    try {
      await navigator.clipboard.writeText(part ? part.textContent : location.href);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = part ? "Select and copy it by hand" : location.href;
    }
    setTimeout(() => { copy.textContent = words; }, 1500);
  }
  const whole = event.target.closest("a[data-whole]");
  if (whole !== null && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    await showWhole(whole);
  }
});

// A value that its row has only the beginning of: the message's own page has the whole.
async function showWhole(link) {
  try {
    const answer = await fetch(link.href, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.status);
    const { value } = await answer.json();
    link.closest("td").querySelector("code").textContent = value.text + (value.is_cut ? "…" : "");
    link.remove();
  } catch {
    location.href = link.href;
  }
}

// Times are UTC in the page: where the browser has another zone, they are its own, UTC beside them.
const AGES = [["year", 31_536_000], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
const ages = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const digits = (value, size = 2) => String(value).padStart(size, "0");

function age(at) {
  const seconds = (at.getTime() - Date.now()) / 1000;
  const [unit, size] = AGES.find(([, one]) => Math.abs(seconds) >= one) ?? AGES.at(-1);
  return ages.format(Math.round(seconds / size), unit);
}

function localise(root) {
  for (const one of root.querySelectorAll("time[datetime]:not([data-utc])")) {
    const at = new Date(one.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const utc = one.textContent;
    one.dataset.utc = utc;
    if (at.getTimezoneOffset() === 0) continue;
    const day = `${digits(at.getFullYear(), 4)}-${digits(at.getMonth() + 1)}-${digits(at.getDate())}`;
    const part = utc.includes(".") ? `.${digits(at.getMilliseconds(), 3)}` : "";
    const clock = `${digits(at.getHours())}:${digits(at.getMinutes())}:${digits(at.getSeconds())}${part}`;
    const beside = document.createElement("small");
    beside.textContent = utc.startsWith(day) ? utc.slice(day.length + 1) : utc;
    one.replaceChildren(`${day} ${clock}`, " ", beside);
  }
}

localise(document);
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const one of change.addedNodes) if (one.nodeType === Node.ELEMENT_NODE) localise(one);
  }
}).observe(document.getElementById("main"), { childList: true, subtree: true });

document.addEventListener("pointerover", (event) => {
  const one = event.target.closest("time[data-utc]");
  if (one !== null) one.title = `${one.dataset.utc}, ${age(new Date(one.dateTime))}`;
});

// What the page shows is old when the broker or the console cannot be reached: it says so.
function showStale(text) {
  const notice = document.querySelector("[data-stale]") ?? document.createElement("p");
  if (text === null) return notice.remove();
  const words = `This page is not current: ${text}. It tries again.`;
  if (notice.textContent === words) return;
  notice.textContent = words;
  notice.className = "problem";
  notice.dataset.stale = "";
  notice.setAttribute("role", "status");
  document.getElementById("main").prepend(notice);
}

// Parts that are made again: the page is asked for once more, and they are taken out of it.
async function loadAgain() {
  const seconds = Number(document.body.dataset.refresh);
  if (!seconds) return;
  await new Promise((done) => setTimeout(done, seconds * 1000));
  if (document.hidden || document.querySelector("dialog[open]") !== null) return loadAgain();
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    showStale(answer.ok ? null : found.querySelector("main p")?.textContent ?? `status ${answer.status}`);
    if (answer.ok) {
      const fresh = found.querySelectorAll("[data-live]");
      document.querySelectorAll("[data-live]").forEach((part, index) => {
        if (fresh[index] && !part.contains(document.activeElement)) part.replaceWith(fresh[index]);
      });
      document.body.dataset.refresh = found.body.dataset.refresh ?? "";
    }
  } catch {
    showStale("the console cannot be reached");
  }
  return loadAgain();
}
loadAgain();
