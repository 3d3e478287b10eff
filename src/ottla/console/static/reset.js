// Times are picked by the clock of the browser; the form brings its distance to UTC.
"use strict";

const time = document.getElementById("time");
const zone = document.getElementById("zone");
const two = (number) => String(number).padStart(2, "0");

function distance(at) {
  const minutes = -at.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

function local(at) {
  const day = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function note() {
  const at = new Date(time.value);
  zone.value = Number.isNaN(at.getTime()) ? "" : distance(at);
}

// A link may have been made where the clock is another.
const given = new Date(time.value + (zone.value || "Z"));
if (time.value && !Number.isNaN(given.getTime())) time.value = local(given);
document.querySelector("[data-zone]").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
time.addEventListener("input", note);
note();
