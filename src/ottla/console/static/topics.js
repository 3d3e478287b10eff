// Fills in records, rates and lags of the topics that are in view, some at a time.
"use strict";

const table = document.querySelector("table[data-figures]");
const atOnce = Number(table?.dataset.figures);

function fill(row, figures) {
  row.querySelector("[data-of=records]").textContent = figures.records?.toLocaleString("en") ?? "–";
  row.querySelector("[data-of=rate]").textContent = figures.rate ?? "–";
  const lag = row.querySelector("[data-of=lag]");
  if (figures.lag_group !== null && figures.lag !== null) {
    const link = document.createElement("a");
    link.href = `${root}/group?${new URLSearchParams({ name: figures.lag_group })}`;
    link.textContent = figures.lag.toLocaleString("en");
    const rest = document.createElement("span");
    rest.className = "quiet";
    rest.textContent = figures.lag_uncommitted ? ` without ${figures.lag_uncommitted} not committed` : "";
    lag.replaceChildren(link, rest);
  } else {
    lag.textContent = "–";
  }
}

function tell(line) {
  const said = [...document.querySelectorAll("p.remark")].map((one) => one.textContent);
  if (said.includes(line)) return;
  const problem = document.createElement("p");
  problem.className = "remark";
  problem.role = "alert";
  problem.textContent = line;
  table.parentElement.before(problem);
}

if (atOnce) {
  let waiting = [];
  let isAsking = false;

  async function ask() {
    if (isAsking) return;
    table.ariaBusy = String(waiting.length > 0);
    if (waiting.length === 0) return;
    isAsking = true;
    const some = waiting.splice(0, atOnce);
    const names = some.map((row) => row.dataset.name);
    const fields = new URLSearchParams({ format: "json", names: names.join(",") });
    try {
      const answer = await fetch(`${root}/topics-figures?${fields}`);
      if (answer.ok) {
        const answered = await answer.json();
        const found = answered.topics;
        answered.lost.forEach(tell);
        for (const row of some) if (found[row.dataset.name]) fill(row, found[row.dataset.name]);
      }
    } finally {
      isAsking = false;
      table.ariaBusy = "false";
    }
    ask();
  }

  table.ariaBusy = "true";
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      waiting.push(entry.target);
    }
    setTimeout(ask, 50);
  });
  for (const row of table.querySelectorAll("tbody tr")) seen.observe(row);
}
