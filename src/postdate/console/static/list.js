// Lists: rows are refreshed in their place, new ones wait until asked for; views are kept by name.
"use strict";

const FIRST_SECONDS = 5;
const SLOWEST_SECONDS = 30;
const MAX_VIEWS = 20;
const POSITION = ["after", "at", "before"];
const rowsOf = (body) => new Map([...(body?.querySelectorAll("tr[data-row]") || [])].map((row) => [row.dataset.row, row]));

function liveList(body) {
  const sign = document.getElementById("list-live");
  const news = document.getElementById("new-rows");
  let seconds = FIRST_SECONDS;

  // Nothing moves or changes under somebody who is about to act on it.
  const busy = () => document.hidden || !document.getSelection().isCollapsed
    || body.querySelector("input:checked") || document.querySelector("dialog[open]");
  const say = (text, stale = false) => { sign.textContent = text; sign.classList.toggle("stale", stale); };

  const refreshRow = (row, fresh) => {
    const cells = [...row.cells].filter((cell, place) => !cell.classList.contains("tick") && meaning(cell) !== meaning(fresh.cells[place]));
    for (const cell of cells) cell.innerHTML = fresh.cells[cell.cellIndex].innerHTML;
    return cells.length > 0;
  };

  // A row that has left the list stays where it is, dimmed, until the list is asked for again.
  const dimGone = (known, found, whole) => {
    const order = [...known.keys()];
    const last = order.findLastIndex((id) => found.has(id));
    order.forEach((id, place) => known.get(id).classList.toggle("gone", !found.has(id) && (whole || place < last)));
  };

  const look = async () => {
    if (busy()) return say("paused");
    const answer = await fetch(location.href, { headers: { "x-live": "1" }, cache: "no-store" });
    if (answer.redirected) return location.reload();
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (busy()) return say("paused");
    const known = rowsOf(body);
    const found = rowsOf(page.querySelector("tbody[data-live]"));
    const added = [...found.keys()].filter((id) => !known.has(id)).length;
    let changed = added > 0;
    for (const [id, row] of known) if (found.has(id)) changed = refreshRow(row, found.get(id)) || changed;
    dimGone(known, found, !page.querySelector("a[rel=next]"));
    news.textContent = `${added}${added === found.size && added ? " or more" : ""} new`;
    news.classList.toggle("waiting", added > 0);
    seconds = changed ? FIRST_SECONDS : Math.min(SLOWEST_SECONDS, seconds * 1.5);
    tellTimes();
    say("● live");
  };

  const next = () => setTimeout(() => look().catch(() => say("stale: no answer", true)).finally(next), seconds * 1000);
  body.addEventListener("change", () => say(busy() ? "paused" : "● live"));
  say("● live");
  next();
}

// A view is a name for an address. It is kept in this browser: to share it, send the address.
function savedViews(box) {
  const key = `views ${box.dataset.tenant} ${location.pathname}`;
  const load = () => { try { return JSON.parse(localStorage.getItem(key)) || []; } catch { return []; } };
  const store = (views) => { try { localStorage.setItem(key, JSON.stringify(views.slice(-MAX_VIEWS))); } catch { /* private mode */ } show(); };
  const here = () => {
    const filters = new URLSearchParams(location.search);
    for (const name of POSITION) filters.delete(name);
    return filters.toString();
  };

  const item = ([name, query]) => {
    const [row, link, remove] = ["li", "a", "button"].map((tag) => document.createElement(tag));
    link.textContent = name;
    link.href = `${location.pathname}?${query}`;
    if (query === here()) link.setAttribute("aria-current", "true");
    remove.textContent = "✕";
    remove.type = "button";
    remove.setAttribute("aria-label", `Forget the view ${name}`);
    remove.addEventListener("click", () => store(load().filter(([other]) => other !== name)));
    row.append(link, " ", remove);
    return row;
  };

  const show = () => box.querySelector("ul").replaceChildren(...load().map(item));
  box.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = event.target.elements.name;
    const name = input.value.trim();
    if (name) store([...load().filter(([other]) => other !== name), [name, here()]]);
    input.value = "";
  });
  box.hidden = false;
  show();
}

// The page of one thing leads back to the list as it was filtered.
function leadBack() {
  const listed = (path) => `list ${path}`;
  try {
    if (document.querySelector("form.filters")) sessionStorage.setItem(listed(location.pathname), location.search);
    for (const link of document.querySelectorAll(".crumb a")) {
      if (!link.search) link.search = sessionStorage.getItem(listed(link.pathname)) || "";
    }
  } catch { /* private mode */ }
}

// A list that is empty so far has no rows to refresh, but new ones to announce.
const listBody = document.querySelector("tbody[data-live]") || document.getElementById("list-live") && document.createElement("tbody");
const viewBox = document.querySelector(".views");
if (listBody) liveList(listBody);
if (viewBox) savedViews(viewBox);
leadBack();
