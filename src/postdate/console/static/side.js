// The side panel: one row of a list beside the list, live; its address is the fragment.
"use strict";

const sideRows = document.querySelector("tbody[data-live]");
let stopFollowing = () => {};

function closeSide() {
  stopFollowing();
  document.querySelector(".side")?.remove();
  document.querySelector("tr.shown")?.classList.remove("shown");
}

async function openSide(id) {
  const row = sideRows.querySelector(`tr[data-row="${CSS.escape(id)}"]`);
  const address = row?.querySelector("td.lead a[href]")?.href;
  if (!address) return closeSide();
  const page = await fetchPage(address);
  if (location.hash !== `#open=${id}`) return;
  closeSide();
  row.classList.add("shown");
  const side = Object.assign(document.createElement("aside"), { className: "side", tabIndex: -1 });
  side.setAttribute("aria-label", "The selected row");
  const bar = Object.assign(document.createElement("p"), { className: "actions" });
  const whole = Object.assign(document.createElement("a"), { href: address, className: "button", textContent: "Open the page" });
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close (Esc)" });
  close.addEventListener("click", () => { location.hash = ""; });
  bar.append(whole, close);
  side.append(bar, ...page.getElementById("main").childNodes);
  document.body.append(side);
  side.focus({ preventScroll: true });
  tellTimes();
  stopFollowing = followPage(side, address, () => !side.isConnected);
}

const followHash = () => {
  const found = /^#open=([\w-]+)$/.exec(location.hash);
  if (found) openSide(found[1]).catch(() => closeSide()); else closeSide();
};

if (sideRows) {
  sideRows.addEventListener("click", (event) => {
    if (event.target.closest("a, input, button, summary, label") || !document.getSelection().isCollapsed) return;
    const row = event.target.closest("tr[data-row]");
    if (row?.querySelector("td.lead a[href]")) location.hash = `open=${row.dataset.row}`;
  });
  addEventListener("hashchange", followHash);
  addEventListener("keydown", (event) => { if (event.key === "Escape" && document.querySelector(".side")) location.hash = ""; });
  followHash();
}
