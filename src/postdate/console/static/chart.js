// Charts: what is due, how fast it goes, how late it begins, balances as they were and as they will be.
"use strict";

const charts = new Map();
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const digits = (raw) => (raw < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: raw < 10 ? 1 : 0 });
const count = (raw) => (raw == null ? "–" : raw.toLocaleString("en", digits(Math.abs(raw))));

function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 120 ? `${+seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}

// Amounts come in units of their currency: they are written with the digits that it has.
const units = (digits) => (raw) => (raw == null ? "–" : raw.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

// The marks of an axis are short where they still differ: 12.5K, 9M.
function shortUnits(digits) {
  return (splits) => {
    const [whole, last] = [units(digits), Math.max(...splits.map(Math.abs))];
    const short = splits.map((raw) => raw.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 }));
    return last < 10000 || new Set(short).size < short.length ? splits.map(whole) : short;
  };
}

const stepped = () => uPlot.paths.stepped({ align: 1 });

function line(label, name, { tint, paths, tell = count } = {}) {
  return { label, stroke: colour(name), fill: tint && colour(tint), width: 2, paths, value: (_, raw) => tell(raw), points: { show: false } };
}

// What is counted has whole marks; the axis is as wide as its longest mark.
const WHOLE = [1, 2, 5].flatMap((step) => [...Array(12).keys()].map((zeros) => step * 10 ** zeros)).sort((one, other) => one - other);
const wide = (_, marks) => Math.max(62, 18 + 7.5 * Math.max(...(marks ?? [""]).map((mark) => String(mark).length)));

// Balances may lie anywhere: their axis has some room above and below them.
const room = (_, low, high) => (low === high ? [low - 1, high + 1] : [low - (high - low) * 0.08, high + (high - low) * 0.08]);

// Marks of the time axis stand whole seconds apart, or more.
const STEPS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 259200, 604800, 1209600, 2592000, 7776000];

// For each kind of chart: its columns, its lines, and how its values are written.
const KINDS = {
  balance: (data) => ({
    columns: [data.x, data.balance],
    lines: [line("Balance", "--accent", { tell: units(data.digits), paths: stepped() })],
    range: room, tell: units(data.digits), marks: shortUnits(data.digits),
  }),
  // What was is solid, what will be is dashed; between balance and available lies what is held.
  ahead: (data) => {
    const [tell, paths, dash] = [units(data.digits), stepped(), [6, 4]];
    const short = { ...line("Falls short", "--bad", { tell, paths: () => null }), points: { show: true, size: 9, fill: colour("--bad"), stroke: colour("--card") } };
    const known = [
      [data.balance, { ...line("Balance ahead", "--calm", { tell, paths }), dash }],
      [data.available, { ...line("Available ahead", "--accent", { tell, paths }), dash }],
      [data.past, line("Balance until now", "--calm", { tell, paths })],
      [data.floor, { ...line("Floor", "--bad", { tell, paths }), width: 1 }],
      [data.short, short],
    ].filter(([column]) => column.some((each) => each != null));
    return {
      columns: [data.x, ...known.map(([column]) => column)],
      lines: known.map(([, drawn]) => drawn),
      bands: [{ series: [1, 2], fill: colour("--held") }],
      at: data.now, range: room, tell, marks: shortUnits(data.digits),
    };
  },
  due: (data) => {
    const paths = uPlot.paths.bars({ size: [0.9], align: 1 });
    const known = data.capacity?.[0] != null;
    const total = data.jobs.map((many, place) => (many == null ? null : many + data.payments[place]));
    return {
      steps: WHOLE,
      columns: [data.x, total, data.jobs, ...(known ? [data.capacity] : [])],
      lines: [
        // The taller bar stands behind: what is seen of it above the jobs are the payments.
        { ...line("Jobs and payments", "--good", { tint: "--good", paths }), width: 0 },
        { ...line("of which jobs", "--accent", { tint: "--accent", paths }), width: 0 },
        ...(known ? [{ ...line("Capacity", "--bad"), dash: [6, 4] }] : []),
      ],
    };
  },
  throughput: (data) => ({
    columns: [data.x, data.accepted, data.executed, data.failed],
    lines: [line("Accepted", "--calm"), line("Executed", "--good"), line("Failed", "--bad")],
  }),
  lateness: (data) => ({
    columns: [data.x, data.p50, data.p99],
    // A minute between two silent ones has no neighbour to be joined with: it is a point.
    lines: [["p50", "--accent"], ["p99", "--warn"]].map(([label, name]) => ({ ...line(label, name, { tell: duration }), points: { show: true, size: 4, fill: colour(name) } })),
    tell: duration,
  }),
};

function drawChart(host) {
  const data = JSON.parse(document.getElementById(`data-${host.dataset.chart}`).textContent);
  const { columns, lines, bands, at: since, range, steps, tell = count, marks } = KINDS[host.dataset.kind](data);
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const fromZero = (_, __, high) => [0, (high || 1) * 1.1];
  charts.get(host)?.destroy();
  charts.set(host, new uPlot({
    width: host.clientWidth, height: 180,
    tzDate: (seconds) => (remembered.local ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), "UTC")),
    cursor: { sync: { key: host.dataset.kind === "due" ? "due" : "past" } },
    scales: { y: { range: range || fromZero } },
    axes: [{ ...axis, space: 76, incrs: STEPS, values: clock }, { ...axis, size: wide, incrs: steps, values: (_, splits) => (marks ? marks(splits) : splits.map(tell)) }],
    series: [{ label: remembered.local ? "Time" : "UTC", value: (_, at) => (at == null ? "–" : absolute(new Date(at * 1000))) }, ...lines],
    bands,
    hooks: { draw: since == null ? [] : [(chart) => drawNow(chart, since)] },
  }, columns, host));
}

// A line where what was ends and what will be begins.
function drawNow(chart, at) {
  const [left, { ctx, bbox }] = [Math.round(chart.valToPos(at, "x", true)), chart];
  if (left <= bbox.left + 2) return;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--soft");
  ctx.font = `${12 * devicePixelRatio}px system-ui`;
  ctx.textAlign = "left";
  ctx.beginPath();
  ctx.moveTo(left, bbox.top);
  ctx.lineTo(left, bbox.top + bbox.height);
  ctx.stroke();
  ctx.fillText("now", left + 4 * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
  ctx.restore();
}

// The same numbers as a table, newest first, made when somebody opens it; empty minutes are left out.
function drawTable(details) {
  const host = document.querySelector(`[data-chart="${details.dataset.table}"]`);
  const chart = charts.get(host);
  if (!details.open || !chart) return;
  const [table, series] = [details.querySelector("table"), chart.series];
  table.replaceChildren();
  table.createTHead();
  table.createTBody();
  const head = table.tHead.insertRow();
  for (const { label } of series) head.append(Object.assign(document.createElement("th"), { textContent: label }));
  const [instants, ...values] = chart.data;
  for (let place = instants.length - 1; place >= 0; place -= 1) {
    if (values.every((column) => !column[place])) continue;
    const row = table.tBodies[0].insertRow();
    [instants, ...values].forEach((column, at) => {
      const cell = row.insertCell();
      cell.textContent = series[at].value(chart, column[place]);
      cell.dataset.label = series[at].label;
      if (at) cell.className = "number";
    });
  }
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
  for (const details of document.querySelectorAll("[data-table]")) drawTable(details);
}

// New numbers for a chart that is drawn: its cursor and its place stay.
function feedChart(name) {
  const host = document.querySelector(`[data-chart="${name}"]`);
  if (!host || !charts.has(host)) return;
  const data = JSON.parse(document.getElementById(`data-${name}`).textContent);
  charts.get(host).setData(KINDS[host.dataset.kind](data).columns);
  drawTable(document.querySelector(`[data-table="${name}"]`));
}

drawCharts();
for (const details of document.querySelectorAll("[data-table]")) details.addEventListener("toggle", () => drawTable(details));
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 150); });
addEventListener("zone", drawCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
