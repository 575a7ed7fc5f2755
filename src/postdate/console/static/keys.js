// Keys: `/` to search, `?` for help, `j k` through rows, `x` to select, Enter to open, `g` + letter.
"use strict";

const PLACES = {
  o: "/", j: "/jobs", p: "/payments", s: "/schedules", a: "/accounts", d: "/dead-letters", e: "/events",
  l: "/lanes", t: "/destinations", u: "/subscriptions", n: "/nodes", f: "/foresight", m: "/foresight/money", i: "/decisions", v: "/approvals", b: "/statements", h: "/change-sets", w: "/audit", c: "/settings",
};
const off = {
  get is() { try { return localStorage.getItem("keys") === "off"; } catch { return false; } },
  set is(value) { try { localStorage.setItem("keys", value ? "off" : "on"); } catch { /* private mode */ } },
};
let going = false;

const rows = () => [...document.querySelectorAll("main table.rows tbody tr")];

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.min(all.length - 1, Math.max(0, at === -1 ? 0 : at + by))];
  all[at]?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus({ preventScroll: true });
}

function mark() {
  const box = document.querySelector("tr.at input[type=checkbox]");
  if (box) { box.checked = !box.checked; box.dispatchEvent(new Event("change", { bubbles: true })); }
}

const ACTS = {
  "/": () => document.querySelector(".find input")?.focus(),
  "?": () => document.getElementById("help")?.showModal(),
  j: () => step(1),
  k: () => step(-1),
  x: mark,
};

function keys(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape" && typing) { document.getElementById("hits").replaceChildren(); event.target.blur(); return; }
  if (off.is && event.key !== "?") return;
  if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]")) return;
  if (going && PLACES[event.key]) location.assign(PLACES[event.key]);
  else if (ACTS[event.key]) { event.preventDefault(); ACTS[event.key](); }
  going = event.key === "g" && !going;
}

// What is selected in a list: how many, and a button that acts on exactly these.
function selection() {
  const form = document.querySelector("form.bulk");
  if (!form?.querySelector(".bulk-bar")) return;
  const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
  const all = form.querySelector("thead input[type=checkbox]");
  const tell = () => {
    const many = boxes.filter((box) => box.checked).length;
    form.querySelector(".selected").textContent = many ? `${many} selected` : "none selected";
    for (const button of form.querySelectorAll(".bulk-bar button")) button.disabled = !many;
    all.checked = many === boxes.length && many > 0;
    all.indeterminate = many > 0 && many < boxes.length;
  };
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; tell(); });
  form.addEventListener("change", tell);
  tell();
}

function helpSwitch() {
  const box = document.getElementById("keys-on");
  if (!box) return;
  box.checked = !off.is;
  box.addEventListener("change", () => { off.is = !box.checked; });
}

addEventListener("keydown", keys);
selection();
helpSwitch();
