// What every page does beyond HTML: times that stay true, in UTC or in the zone of the reader.
"use strict";

const loadedAt = performance.now();
// Ages are counted from the database's clock, which came with the page.
const now = () => Number(document.body.dataset.now) + (performance.now() - loadedAt);
const remembered = {
  get local() { try { return localStorage.getItem("zone") === "local"; } catch { return false; } },
  set local(value) { try { localStorage.setItem("zone", value ? "local" : "utc"); } catch { /* private mode */ } },
};

function relative(seconds) {
  const size = Math.abs(seconds);
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    if (size >= unit) {
      const text = `${(size / unit).toFixed(size >= 10 * unit ? 0 : 1)} ${name}`;
      return seconds > 0 ? `in ${text}` : `${text} ago`;
    }
  }
  return "now";
}

function absolute(date) {
  if (!remembered.local) return date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  return new Intl.DateTimeFormat("sv-SE", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
    second: "2-digit", timeZoneName: "short",
  }).format(date);
}

function weekday(date) {
  const zone = remembered.local ? {} : { timeZone: "UTC" };
  const day = date.getTime() - now() < 6 * 86400e3 ? {} : { day: "numeric", month: "long" };
  const said = (parts) => new Intl.DateTimeFormat("en-GB", { ...parts, ...zone }).format(date);
  return `${said({ weekday: "long", ...day })} ${said({ hour: "2-digit", minute: "2-digit" })}`;
}

function tellTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.querySelector(".relative").textContent = relative((date.getTime() - now()) / 1000);
    time.querySelector(".absolute").textContent = absolute(date);
    const day = time.querySelector(".weekday");
    if (day) day.textContent = weekday(date);
  }
}

function countDown() {
  for (const place of document.querySelectorAll("[data-countdown]")) place.textContent = Math.max(0, Number(place.textContent) - 1);
}

function zoneButton() {
  const button = document.getElementById("zone");
  if (!button) return;
  const say = () => { button.textContent = remembered.local ? "Times in your zone" : "Times in UTC"; };
  button.hidden = false;
  say();
  button.addEventListener("click", () => { remembered.local = !remembered.local; say(); tellTimes(); dispatchEvent(new Event("zone")); });
}

function printButton() {
  const button = document.getElementById("print");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => print());
}

// Who opens a form is about to write: its first empty field has the cursor. A phone would show its keyboard.
function firstField() {
  if (location.hash || !matchMedia("(hover: hover)").matches) return;
  const fields = document.querySelectorAll("#form :is(input:not([type=hidden], [type=checkbox]), textarea:not([hidden]))");
  const wanted = document.querySelector("#form [aria-invalid=true]") ?? [...fields].find((field) => !field.value && field.checkVisibility());
  wanted?.focus();
}

tellTimes();
zoneButton();
printButton();
firstField();
document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
setInterval(() => { tellTimes(); countDown(); }, 1000);
