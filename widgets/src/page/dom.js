/* Elements are made here and nowhere else; text only ever becomes a text node. */

/** Make an element: `h("p", {class: "x", onclick: fn}, "text", child)`; absent children and attributes are left out. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== ""));
  return node;
}

function setAttribute(node, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on")) node[name] = (event) => void value(event); // one that returns false would stop the key
  else node.setAttribute(name, value === true ? "" : String(value));
}

/**
 * Make `host` show what `make` gives. Elements that stay are kept, with their focus and with what is typed into them; when
 * the focused one goes, the focus moves to the element of `fallback`, or to the first button.
 */
export function redraw(host, make, fallback) {
  const active = document.activeElement;
  const held = host.contains(active) && active !== host;
  patchChildren(host, make().flat().filter(Boolean));
  if (!held || document.activeElement === active) return;
  const again = (host.contains(active) && active) || find(host, active.dataset.key) || find(host, fallback) || host.querySelector("button");
  again?.focus({ preventScroll: true });
}

export function find(host, key) {
  return key ? host.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
}

/** A place in what is made for an element that lives on by itself. */
export function placeOf(element) {
  return Object.assign(document.createComment(""), { element });
}

const HANDLERS = ["onclick", "oninput", "onkeydown", "ontoggle", "onchange"];

function patchChildren(host, made) {
  let here = host.firstChild;
  for (const node of made) {
    const kept = node.element ?? alike(host, here, node);
    if (kept && kept !== node.element) patch(kept, node);
    const shown = kept ?? withElements(node);
    if (shown === here) here = here.nextSibling;
    else host.insertBefore(shown, here);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

/** A node that is new here, with the living elements in their places. */
function withElements(node) {
  for (const child of [...node.childNodes]) {
    if (child.element) child.replaceWith(child.element);
    else withElements(child);
  }
  return node;
}

/** What is there already for a made node: the child with its key, or else the child in its place if that is of its kind. */
function alike(host, here, node) {
  const key = node.dataset?.key;
  if (key) return [...host.children].find((child) => child.dataset.key === key && child.nodeName === node.nodeName);
  return here && here.nodeName === node.nodeName && !here.dataset?.key ? here : undefined;
}

function patch(old, made) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of HANDLERS) old[name] = made[name];
  patchChildren(old, [...made.childNodes]);
}

const SVG = "http://www.w3.org/2000/svg";
const RING = "M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 0 0 0-12.5z";
const PATHS = {
  alert: RING + "M8 4.9v3.6M8 11h.01",
  ban: RING + "M3.7 3.7l8.6 8.6",
  bell: "M4 6.6a4 4 0 0 1 8 0c0 3.2 1.4 4.2 1.4 4.2H2.6S4 9.8 4 6.6zM6.7 13.3a1.5 1.5 0 0 0 2.6 0",
  calendar: "M2.25 4.25a1 1 0 0 1 1-1h9.5a1 1 0 0 1 1 1v8.5a1 1 0 0 1-1 1h-9.5a1 1 0 0 1-1-1zM2.25 6.75h11.5M5.25 1.75v3M10.75 1.75v3",
  check: RING + "M5.3 8.2l1.9 1.9l3.5-3.9",
  chevron: "M4.5 6.25l3.5 3.5l3.5-3.5",
  clock: RING + "M8 4.6v3.6l2.3 1.4",
  cross: RING + "M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2",
  dots: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  flag: "M3.5 14.25v-12M3.5 2.75h8.5l-2 3l2 3h-8.5",
  grow: "M9.5 2.5h4v4M13.5 2.5l-4.5 4.5M6.5 13.5h-4v-4M2.5 13.5l4.5-4.5",
  history: "M2.3 5.5a6.25 6.25 0 1 1-.5 3.2M1.9 2.6v3.2h3.2M8 5v3.3l2.1 1.2",
  hourglass: "M4 1.75h8M4 14.25h8M4.75 1.75v2.5c0 2 3.25 2.7 3.25 3.75s-3.25 1.75-3.25 3.75v2.5M11.25 1.75v2.5c0 2-3.25 2.7-3.25 3.75s3.25 1.75 3.25 3.75v2.5",
  inbox: "M1.75 9l2-6.25h8.5l2 6.25v3.25a1 1 0 0 1-1 1H2.75a1 1 0 0 1-1-1zM1.75 9h3.5l1 1.75h3.5l1-1.75h3.5",
  moon: "M13.6 9.6A6 6 0 0 1 6.4 2.4a6 6 0 1 0 7.2 7.2z",
  pencil: "M2.5 13.5l.7-3.2l7.6-7.6l2.5 2.5l-7.6 7.6zM9.4 4.1l2.5 2.5",
  pause: RING + "M6.5 5.8v4.4M9.5 5.8v4.4",
  play: RING + "M6.7 5.5l3.9 2.5l-3.9 2.5z",
  repeat: "M11 1.5l2.5 2.5l-2.5 2.5M2.5 7.5v-1.5a2 2 0 0 1 2-2h9M5 14.5l-2.5-2.5l2.5-2.5M13.5 8.5v1.5a2 2 0 0 1-2 2h-9",
  ring: RING,
  retry: "M13.7 5.5a6.25 6.25 0 1 0 .5 3.2M14.1 2.6v3.2h-3.2",
  lines: "M2.5 4h11M2.5 8h11M2.5 12h7",
  shrink: "M13 7h-4v-4M9 7l4.5-4.5M3 9h4v4M7 9l-4.5 4.5",
  skip: "M3.5 3.5l6.5 4.5l-6.5 4.5zM12.5 3.5v9",
  stack: "M8 2l6 3l-6 3l-6-3zM2 8l6 3l6-3M2 11l6 3l6-3",
  tag: "M2 2.5h5.5l6.5 6.5l-5 5l-7-6.5zM5 5.5h.01",
  undo: "M5.5 2.5l-3.5 3.5l3.5 3.5M2 6h7.5a4 4 0 0 1 0 8h-3",
  user: "M8 2a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM2.5 14.25c.5-2.5 2.7-4 5.5-4s5 1.5 5.5 4",
};

/** One line of what is known, under an icon and a name for screen readers. */
export function fact(picture, name, ...value) {
  return h("div", { class: "fact" }, h("dt", {}, icon(picture), h("span", { class: "sr" }, name)), h("dd", {}, value));
}

/** A bar of which `part` (0 to 1) is filled: from its end, or from its `start`; what it shows is said in words next to it. */
export function bar(part, { start = false } = {}) {
  const svg = drawn("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  const width = Math.max(part * 100, 1.5);
  svg.append(block("track", 0, 100), block("part", start ? 0 : 100 - width, width));
  return svg;
}

function block(name, x, width) {
  return drawn("rect", { class: name, x, width, height: 4 });
}

function drawn(tag, attributes) {
  const shape = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  return shape;
}

/** A 16 px line drawing; always next to a word, so hidden from screen readers. */
export function icon(name) {
  const svg = drawn("svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: `icon icon-${name}` });
  svg.append(drawn("path", { d: PATHS[name] ?? PATHS.clock }));
  return svg;
}
