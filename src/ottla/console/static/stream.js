// Streams of events: a search that goes on, the tail of a topic, and a group.
"use strict";

const MOST_ROWS = 200;
const MOST_MARKED = 5;
const number = (value) => value.toLocaleString("en");
const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
const body = document.querySelector("[data-messages]");
const stop = document.querySelector("[data-stop]");
const words = document.querySelector("[data-words]");
const REFUSED = "The console did not begin this live page. Load the page again.";

// A browser does not show a script the answer to a refused stream, and does not ask again.
const isRefused = (source) => source.readyState === EventSource.CLOSED;

// The console made the rows, with everything escaped; nothing of a message is put together here.
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = `<table><tbody>${html}</tbody></table>`;
  return [...template.content.querySelectorAll("tr")];
}

function search(line) {
  const progress = line.querySelector("progress");
  const more = document.querySelector("[data-more]");
  const fields = new URLSearchParams(location.search);
  const source = new EventSource(`${line.dataset.stream}?${fields}`);
  const began = performance.now();
  let last = null;

  function end(text) {
    source.close();
    progress.hidden = true;
    stop.hidden = true;
    words.textContent = text;
    if (last?.after) {
      fields.set("after", last.after);
      more.href = `${location.pathname}?${fields}`;
      more.hidden = false;
    }
  }

  progress.hidden = false;
  stop.hidden = false;
  words.textContent = "Searching …";
  stop.addEventListener("click", () => end(`Stopped. ${describe(last)}`));
  source.addEventListener("messages", (event) => body.append(...parsed(event.data)));
  source.addEventListener("progress", (event) => {
    last = JSON.parse(event.data);
    progress.max = Math.max(1, last.total);
    progress.value = last.offset_count;
    words.textContent = describe(last);
    if (last.is_done) end(describe(last));
  });
  for (const kind of ["failed", "lost"]) source.addEventListener(kind, (event) => end(JSON.parse(event.data)));
  source.addEventListener("end", () => source.close());
  source.onerror = () => end(isRefused(source) && last === null ? REFUSED : `The search was cut off after ${Math.round((performance.now() - began) / 1000)} s. ${describe(last)}`);
}

function describe(found) {
  if (found === null) return "";
  const part = found.total ? Math.floor((100 * found.offset_count) / found.total) : 100;
  const rate = found.seconds > 0.5 ? `, ${number(Math.round(found.record_count / found.seconds))} messages/s` : "";
  return `${counted(found.found_count, "message")} found in ${number(found.offset_count)} of ${number(found.total)} offsets (${part} %)${rate}`;
}

function tail(line) {
  let source = null;
  let isStopped = false;

  function start() {
    source = new EventSource(line.dataset.tail);
    let lost = "";
    words.textContent = "Waiting for messages …";
    source.addEventListener("messages", (event) => {
      const rows = parsed(event.data);
      // The browser paints the whole table for each frame of these: with many it drops frames.
      if (rows.length <= MOST_MARKED) for (const row of rows) row.classList.add("new");
      body.prepend(...rows);
      while (body.rows.length > MOST_ROWS) body.rows[body.rows.length - 1].remove();
    });
    source.addEventListener("rate", (event) => {
      lost = "";
      const found = JSON.parse(event.data);
      const sampled = found.shown < found.count
        ? `: too many to read, so this is a sample, ${found.shown} of the last ${number(found.count)}`
        : "";
      words.textContent = `${counted(found.per_second, "message")} a second${sampled}`;
    });
    source.addEventListener("failed", (event) => {
      source.close();
      words.textContent = JSON.parse(event.data);
    });
    // The browser asks again by itself when the stream ends.
    source.addEventListener("lost", (event) => { lost = JSON.parse(event.data); });
    source.onerror = () => {
      words.textContent = isRefused(source) ? REFUSED : `${lost || "The console cannot be reached"}; trying again …`;
    };
  }

  stop.hidden = false;
  stop.addEventListener("click", () => {
    isStopped = !isStopped;
    stop.textContent = isStopped ? "Continue" : "Pause";
    if (isStopped) {
      source.close();
      words.textContent = "Paused.";
    } else {
      start();
    }
  });
  start();
}

function group(part) {
  const source = new EventSource(part.dataset.group);
  source.addEventListener("group", (event) => {
    showStale(null);
    if (part.contains(document.activeElement)) return;
    const template = document.createElement("template");
    template.innerHTML = event.data;
    part.replaceChildren(template.content);
  });
  source.addEventListener("lost", (event) => showStale(JSON.parse(event.data)));
  source.addEventListener("failed", (event) => {
    source.close();
    showStale(JSON.parse(event.data));
  });
}

// A search with conditions is a stream: the form says so, and the page then waits for it.
const form = document.querySelector("[data-search-form]");
form?.addEventListener("submit", () => {
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "stream";
  field.value = "1";
  form.append(field);
  for (const one of form.querySelectorAll("input, select")) if (one.value === "") one.disabled = true;
});

for (const line of document.querySelectorAll("[data-stream]")) if (line.dataset.stream) search(line);
for (const line of document.querySelectorAll("[data-tail]")) tail(line);
for (const part of document.querySelectorAll("[data-group]")) group(part);
