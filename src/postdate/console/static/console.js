// What the pages do beyond HTML: times that stay true, charts, the live overview, a few keys.
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

function tellTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.querySelector(".relative").textContent = relative((date.getTime() - now()) / 1000);
    time.querySelector(".absolute").textContent = absolute(date);
  }
}

function zoneButton() {
  const button = document.getElementById("zone");
  if (!button) return;
  const say = () => { button.textContent = remembered.local ? "Times in your zone" : "Times in UTC"; };
  button.hidden = false;
  say();
  button.addEventListener("click", () => { remembered.local = !remembered.local; say(); tellTimes(); drawCharts(); });
}

const charts = new Map();
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function series(kind, data) {
  const value = (_, raw) => (raw == null ? "–" : raw.toLocaleString("en"));
  const line = (label, name, tint, paths) => ({ label, stroke: colour(name), fill: colour(tint), width: 2, paths, value, points: { show: false } });
  if (kind === "balance") {
    const stepped = uPlot.paths.stepped({ align: 1 });
    return [[data.x, data.balance], [line("Balance", "--accent", "--accent-tint", stepped)]];
  }
  const bars = uPlot.paths.bars({ size: [0.9], align: 1 });
  const total = data.jobs.map((many, place) => (many == null ? null : many + data.payments[place]));
  return [
    [data.x, total, data.jobs],
    [
      // The taller bar stands behind: what is seen of it above the jobs are the payments.
      { ...line("Jobs and payments", "--good", "--good", bars), width: 0 },
      { ...line("of these jobs", "--accent", "--accent", bars), width: 0 },
    ],
  ];
}

function drawChart(host) {
  const data = JSON.parse(document.getElementById(`data-${host.dataset.chart}`).textContent);
  const [columns, lines] = series(host.dataset.kind, data);
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const whole = (_, splits) => splits.map((at) => (Number.isInteger(at) ? at.toLocaleString("en") : ""));
  charts.get(host)?.destroy();
  charts.set(host, new uPlot({
    width: host.clientWidth, height: 180,
    tzDate: (seconds) => (remembered.local ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), "UTC")),
    cursor: { sync: { key: host.dataset.kind } },
    scales: { y: { range: (_, low, high) => (host.dataset.kind === "due" ? [0, Math.max(high, 1) * 1.1] : low === high ? [low - 1, high + 1] : [low - (high - low) * 0.08, high + (high - low) * 0.08]) } },
    axes: [{ ...axis, space: 76, values: clock }, { ...axis, size: 62, values: whole }],
    series: [{ label: remembered.local ? "Time" : "UTC", value: (_, at) => (at == null ? "–" : absolute(new Date(at * 1000))) }, ...lines],
  }, columns, host));
}

// 24 hours, whatever the browser's language is; the day is added where it changes.
function clock(_, splits, __, ___, step) {
  let day = null;
  return splits.map((at) => {
    const text = absolute(new Date(at * 1000));
    const [date, time] = [text.slice(5, 10), text.slice(11, step < 60 ? 19 : 16)];
    const changed = date !== day && (day !== null || step >= 3600);
    day = date;
    return changed || step >= 86400 ? `${time}\n${date}` : time;
  });
}

function drawCharts() {
  for (const host of document.querySelectorAll("[data-chart]")) drawChart(host);
}

const TICK_SECONDS = 2;
let heardAt = performance.now();

function live() {
  const sign = document.getElementById("live");
  if (!sign) return;
  document.body.addEventListener("htmx:after:swap", () => { heardAt = performance.now(); tellTimes(); drawCharts(); });
  setInterval(() => {
    const age = (performance.now() - heardAt) / 1000;
    const selecting = !document.getSelection().isCollapsed;
    sign.classList.toggle("stale", age > 5 * TICK_SECONDS);
    sign.textContent = selecting ? "paused while you select" : age > 5 * TICK_SECONDS ? `stale: ${age.toFixed(0)} s old` : `● live, every ${TICK_SECONDS} s`;
    if (!document.hidden && !selecting) document.body.dispatchEvent(new CustomEvent("tick"));
  }, TICK_SECONDS * 1000);
  sign.textContent = `● live, every ${TICK_SECONDS} s`;
}

const PLACES = { o: "/", j: "/jobs", p: "/payments", a: "/accounts", d: "/dead-letters", l: "/lanes", n: "/nodes", s: "/settings" };
let going = false;

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") { event.preventDefault(); document.querySelector(".find input")?.focus(); }
  if (going && PLACES[event.key]) location.assign(PLACES[event.key]);
  going = event.key === "g";
}

tellTimes();
zoneButton();
drawCharts();
live();
setInterval(tellTimes, 1000);
addEventListener("keydown", keys);
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
