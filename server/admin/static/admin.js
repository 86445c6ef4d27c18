// Live pages, the keyboard, the viewer's zone and theme. Charts are drawn by charts.js.
"use strict";

const YEAR_S = 365 * 24 * 3600;
const REFRESH_PAUSE_MS = 2000;
const RECONNECT_PAUSE_MS = 5000;

function remember(name, value) {
  document.cookie = `${name}=${value}; path=/admin; max-age=${value ? YEAR_S : 0}; samesite=strict`;
}

// --- the viewer's time zone: the server writes times by it, so it has to know it

function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const known = document.documentElement.dataset.zone;
  if (!zone || zone === known || document.cookie.includes(`duetime_zone=${zone}`)) return;
  remember("duetime_zone", zone);
  if (document.cookie.includes(`duetime_zone=${zone}`)) location.reload();
}

// --- light and dark

function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const shown = document.documentElement.dataset.theme || dark;
  const next = shown === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next === dark ? "" : next;
  remember("duetime_theme", next === dark ? "" : next);
  document.dispatchEvent(new Event("duetime:theme"));
}

// --- live: the page asks for itself again when something changed, unless its reader is in the middle of something

const LIVE_HEADER = "X-Duetime-Live";
let refreshed = 0;
let waiting = 0;

function busy() {
  const field = document.activeElement;
  const typing = field && field.closest("#content") && field.matches("input:not([type=checkbox]), textarea, select");
  return document.hidden || typing || document.querySelector("#content details.act[open], #content :checked[name=pick]");
}

function refresh() {
  if (!document.getElementById("content")) return;
  refreshed = Date.now();
  const headers = { [LIVE_HEADER]: "1" };
  htmx.ajax("GET", location.href, { target: "#content", select: "#content", swap: "outerMorph", headers });
}

function refreshSoon() {
  if (waiting) return;
  waiting = setTimeout(() => {
    waiting = 0;
    if (!document.querySelector("[data-live]")) return;
    if (busy()) refreshSoon();
    else refresh();
  }, Math.max(REFRESH_PAUSE_MS - (Date.now() - refreshed), 0));
}

let stream = null;

function listen() {
  const page = document.querySelector("[data-live]");
  if (document.hidden || stream || !page) return;
  stream = new EventSource(`/admin/live?since=${page.dataset.live}`);
  stream.addEventListener("changed", refreshSoon);
  stream.addEventListener("error", () => {
    if (stream && stream.readyState === EventSource.CLOSED) {
      stop();
      setTimeout(listen, RECONNECT_PAUSE_MS);
    }
  });
}

function stop() {
  if (stream) stream.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stop();
  } else if (document.querySelector("[data-live]")) {
    refreshSoon();
    listen();
  }
});

// --- the keyboard

const SECTIONS = { o: "/admin", r: "/admin/runs", s: "/admin/schedules", d: "/admin/dead", a: "/admin/audit" };
let chosen = -1;
let going = false;

const sectionLinks = () => [...document.querySelectorAll("nav[aria-label=Sections] a, a.brand")];

function rows() {
  return [...document.querySelectorAll("#content tbody tr[data-row]")];
}

function choose(step) {
  const all = rows();
  if (!all.length) return;
  chosen = Math.min(Math.max(chosen + step, 0), all.length - 1);
  all.forEach((row, at) => row.classList.toggle("chosen", at === chosen));
  const link = all[chosen].querySelector("a");
  if (link) link.focus({ preventScroll: true });
  all[chosen].scrollIntoView({ block: "nearest" });
}

function pickChosen() {
  const box = rows()[chosen]?.querySelector("input[name=pick]");
  if (box) box.click();
}

const KEYS = {
  "/": () => document.querySelector("#content input[type=search]")?.focus(),
  j: () => choose(1),
  k: () => choose(-1),
  x: pickChosen,
  "?": () => document.getElementById("keys")?.showModal(),
  t: nextTheme,
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && field) field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (going) {
    going = false;
    const link = sectionLinks().find((each) => each.pathname === SECTIONS[event.key]);
    if (link) location.assign(link.href); // which has the chosen tenant
    return;
  }
  going = event.key === "g";
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// --- picking rows for one change of many: a swap moves no pick to another row, though it gives the row's box to that one

let picked = new Set();

const pickedRun = (box) => box.value.split(" ")[0]; // behind it stands whether the page shows the run as open

function keepPicks() {
  picked = new Set([...document.querySelectorAll("#content input[name=pick]:checked")].map(pickedRun));
}

function restorePicks() {
  document.querySelectorAll("#content input[name=pick]").forEach((box) => {
    box.checked = picked.has(pickedRun(box));
  });
}

function tellPicked() {
  const boxes = [...document.querySelectorAll("#content input[name=pick]")];
  const count = boxes.filter((box) => box.checked).length;
  document.querySelectorAll("[data-picked]").forEach((text) => {
    text.textContent = count ? `${count} picked` : "";
  });
  const all = document.querySelector("#content input[data-pick-all]");
  if (all) {
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-pick-all]")) {
    document.querySelectorAll("#content input[name=pick]").forEach((box) => {
      box.checked = event.target.checked;
    });
  }
  if (event.target.matches("input[data-pick-all], input[name=pick]")) tellPicked();
});

// --- forms that change something: each is sent once, and what was typed comes back after a login in between

const TYPED = "duetime_typed";
const TYPED_FIELDS = "textarea, input:not([type=hidden], [type=checkbox])";

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || !form.closest(".frame")) return;
  if (form.dataset.sent) {
    event.preventDefault(); // by a second click
    return;
  }
  form.dataset.sent = "1";
  const values = [...form.querySelectorAll(TYPED_FIELDS)].map((field) => [field.name, field.value]);
  sessionStorage.setItem(TYPED, JSON.stringify({ action: form.getAttribute("action"), values }));
});

window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent);
});

function restoreTyped() {
  const kept = JSON.parse(sessionStorage.getItem(TYPED) || "null");
  if (!kept) return;
  if (document.querySelector("main.login")) {
    kept.unsent ||= new URLSearchParams(location.search).has("unsent");
    sessionStorage.setItem(TYPED, JSON.stringify(kept));
    return;
  }
  sessionStorage.removeItem(TYPED);
  const form = [...document.forms].find((each) => each.method === "post" && each.getAttribute("action") === kept.action);
  if (!kept.unsent || !form) return;
  form.closest("details")?.setAttribute("open", "");
  for (const [name, value] of kept.values) {
    const field = [...form.querySelectorAll(TYPED_FIELDS)].find((each) => each.name === name);
    if (field) field.value = value;
  }
}

// --- buttons without a form, and menus that close

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) nextTheme();
  if (event.target.closest("[data-keys]")) document.getElementById("keys").showModal();
  const menu = event.target.closest("[data-menu]");
  if (menu) {
    const open = menu.closest(".side-inner").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  }
  if (event.target.closest("[data-dismiss]")) event.target.closest(".said").remove();
  const copied = event.target.closest("[data-copy]");
  if (copied) navigator.clipboard.writeText(copied.dataset.copy);
  document.querySelectorAll("details.act[open]").forEach((act) => {
    if (!act.contains(event.target)) act.open = false;
  });
});

// --- htmx: addresses without empty filters, folds that stay as their reader left them, errors that are shown, a session that has ended

document.addEventListener("htmx:config:request", (event) => {
  const body = event.detail.ctx.request.body;
  if (!(body instanceof FormData)) return;
  for (const [name, value] of [...body.entries()]) if (value === "") body.delete(name);
});

// The sections stand outside of what a swap replaces, so a tenant that is chosen by a filter has to be put into them.
function keepTenant() {
  const chosen = document.getElementById("problem") ? null : new URLSearchParams(location.search).get("tenant");
  for (const link of sectionLinks()) {
    const address = new URL(link.href);
    if (chosen) address.searchParams.set("tenant", chosen);
    else address.searchParams.delete("tenant");
    link.href = address;
  }
}

let folds = new Map();

document.addEventListener("htmx:before:swap", (event) => {
  keepPicks();
  folds = new Map([...document.querySelectorAll("#content details[id]")].map((fold) => [fold.id, fold.open]));
  const response = event.detail.ctx?.response;
  if (response && response.status === 401) {
    event.preventDefault();
    location.reload();
  } else if (event.detail.ctx?.request.headers[LIVE_HEADER] && busy()) {
    event.preventDefault(); // its reader began something after it was asked for
    refreshSoon();
  }
});

document.addEventListener("htmx:after:swap", () => {
  document.querySelectorAll("#content details[id]").forEach((fold) => {
    fold.open = folds.get(fold.id) ?? fold.open;
  });
  chosen = Math.min(chosen, rows().length - 1);
  restorePicks();
  tellPicked();
  setTimeout(keepTenant); // the address changes behind the swap
  document.dispatchEvent(new Event("duetime:swapped"));
});

document.addEventListener("DOMContentLoaded", () => {
  tellZone();
  restoreTyped();
  tellPicked();
  listen();
});
