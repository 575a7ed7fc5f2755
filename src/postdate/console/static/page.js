// The page of one thing: its parts are refreshed in their place while it can still change.
"use strict";

// What a cell says: not how long ago, and not what somebody has opened in it.
function meaning(cell) {
  const copy = cell.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.textContent = time.dateTime;
  for (const opened of copy.querySelectorAll("details")) opened.removeAttribute("open");
  return copy.innerHTML;
}

// Nothing changes under somebody who copies, types or has a dialog open.
const atWork = (part) => !document.getSelection().isCollapsed || document.querySelector("dialog[open]")
  || part.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);

// What somebody has opened or closed stays so: by what its summary says.
function refreshPart(part, fresh) {
  if (meaning(part) === meaning(fresh)) return;
  const opened = new Map([...part.querySelectorAll("details")].map((details, at) => [at + details.querySelector("summary").textContent, details.open]));
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.innerHTML = fresh.innerHTML;
  part.querySelectorAll("details").forEach((details, at) => {
    const was = opened.get(at + details.querySelector("summary").textContent);
    if (was !== undefined) details.open = was;
  });
  if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

async function fetchPage(address) {
  const answer = await fetch(address, { headers: { "x-live": "1" }, cache: "no-store" });
  if (answer.redirected) location.reload();
  if (!answer.ok) throw new Error(answer.statusText);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// The parts of one box follow an address until what it shows has ended.
function followPage(box, address, gone = () => false) {
  let timer = null;
  const say = (text, stale = false) => {
    const sign = box.querySelector("[data-page-live]");
    if (!sign) return;
    sign.textContent = text;
    sign.classList.toggle("stale", stale);
  };
  const look = async () => {
    const parts = [...box.querySelectorAll("[data-part]")];
    if (document.hidden || parts.some(atWork)) return say("paused");
    const page = await fetchPage(address);
    if (gone()) return;
    for (const part of parts) {
      const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
      if (fresh && !atWork(part)) refreshPart(part, fresh);
    }
    tellTimes();
    say("● live");
  };
  const next = () => {
    const seconds = Number(box.querySelector("[data-page-live]")?.dataset.pageLive);
    if (!seconds || gone()) return;
    timer = setTimeout(() => look().catch(() => say("stale: no answer", true)).finally(next), seconds * 1000);
  };
  say("● live");
  next();
  return () => clearTimeout(timer);
}

const main = document.getElementById("main");
if (main?.querySelector("[data-page-live]")) followPage(main, location.href);
