// The live overview: one stream for all tabs of a browser, cells patched in the place of their ids.
"use strict";

const TICK_SECONDS = 2;
const sign = document.getElementById("live");
let heardAt = performance.now();

function patch(html) {
  if (!document.getSelection().isCollapsed) return; // somebody is about to copy something
  const box = document.createElement("template");
  box.innerHTML = html;
  for (const cell of box.content.querySelectorAll("[id]")) {
    const place = document.getElementById(cell.id);
    if (!place || place.contains(document.activeElement) && place !== document.activeElement) continue;
    place.className = cell.className;
    if (place.innerHTML === cell.innerHTML) continue;
    const opened = [...place.querySelectorAll("details")].map((details) => details.open);
    place.innerHTML = cell.innerHTML;
    place.querySelectorAll("details").forEach((details, at) => { details.open = Boolean(opened[at]); });
    if (cell.id.startsWith("data-")) feedChart(cell.id.slice(5));
  }
  heardAt = performance.now();
  tellTimes();
}

function tellAge() {
  const age = (performance.now() - heardAt) / 1000;
  const stale = age > 5 * TICK_SECONDS;
  const text = document.hidden || !document.getSelection().isCollapsed ? "paused" : stale ? `stale: ${age.toFixed(0)} s old` : `● live ${TICK_SECONDS} s`;
  sign.classList.toggle("stale", stale);
  if (sign.textContent !== text) sign.textContent = text;
}

// A stream that was refused for good: signed out, or the server is being started again.
async function lookAgain() {
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (answer.redirected) location.reload();
  } catch { /* not there yet: the next look comes */ }
}

function follow() {
  const channel = new BroadcastChannel(`live ${sign.dataset.tenant}`);
  channel.addEventListener("message", (message) => patch(message.data));
  let close = null;
  let waiting = null;

  // Whoever holds the lock has the stream, and passes on what it hears.
  const lead = () => new Promise((leave) => {
    let source;
    const open = () => {
      source = new EventSource(sign.dataset.stream);
      source.addEventListener("cells", (event) => { patch(event.data); channel.postMessage(event.data); });
      source.addEventListener("gone", () => location.reload());
      source.addEventListener("error", () => {
        if (source.readyState === EventSource.CLOSED && close) setTimeout(() => lookAgain().then(() => close && open()), 5000);
      });
    };
    close = () => { source.close(); close = null; leave(); };
    if (document.hidden) close = null, leave(); else open();
  });

  const turn = () => {
    waiting?.abort();
    if (document.hidden) { close?.(); return; }
    if (close) return;
    waiting = new AbortController();
    // Locks exist only on https and on this machine; elsewhere every tab has its own stream.
    if (navigator.locks) navigator.locks.request("live", { signal: waiting.signal }, lead).catch(() => {});
    else lead();
  };
  document.addEventListener("visibilitychange", turn);
  turn();
}

if (sign) {
  follow();
  tellAge();
  setInterval(tellAge, 1000);
}
