// Charts: an element with data-chart has its points as JSON, one list of times and one for each series.
"use strict";

const drawn = new Map();
const AXIS_CHARS_PX = 48;
const LAST_TIME_PX = 20; // half of the last time below a line, which ends where the chart does
const STEPS = steps(0);
const FINE_STEPS = steps(-6);
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [0.001, "ms"]];
const TIME_STEPS = [...steps(-3).filter((step) => step < 10), 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, ...steps(0).map((step) => step * 86400)];
const BAR_WIDTH = 0.7;
const MAX_BAR_PX = 48;

// The distances that lines of an axis may have, from a power of ten on.
function steps(least) {
  const powers = Array.from({ length: 10 - least }, (_, number) => number + least);
  return powers.flatMap((power) => [1, 2, 5].map((step) => Number(`${step}e${power}`)));
}

// A time below the axis, by the viewer's clock; the day where one begins.
function clock(seconds) {
  const zone = { timeZone: document.documentElement.dataset.zone || "UTC" };
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString("en-GB", { ...zone, hour: "2-digit", minute: "2-digit" });
  return time === "00:00" ? at.toLocaleDateString("en-GB", { ...zone, day: "numeric", month: "short" }) : time;
}

// A value as its unit has it: a length of time in its largest unit, or a number.
function written(element, value) {
  const number = (shown, digits) => shown.toLocaleString("en", { maximumFractionDigits: digits });
  if (element.dataset.unit !== "s") return number(value, 6);
  const [length, name] = UNITS.find(([unit]) => value >= unit) || [1, "s"];
  return `${number(value / length, 1)} ${name}`;
}

function stepsOf(element) {
  if (element.dataset.unit === "s") return TIME_STEPS;
  return "fine" in element.dataset ? FINE_STEPS : STEPS;
}

// Bars stand on each other: the topmost is drawn first, as high as all of them together. Null is not known.
function stacked(data) {
  const sums = [];
  for (let at = data.length - 1; at > 0; at--) {
    const above = sums[0] || data[0].map(() => 0);
    sums.unshift(data[at].map((value, n) => (value === null ? null : value + above[n])));
  }
  return [data[0], ...sums];
}

function colours(element) {
  return JSON.parse(element.dataset.colours).map((name) => {
    const probe = document.createElement("span");
    probe.className = name;
    element.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  });
}

function options(element, names) {
  const { color: soft, borderTopColor: line } = getComputedStyle(element);
  const strokes = colours(element);
  const fine = "fine" in element.dataset;
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  return {
    width: element.clientWidth,
    height: element.clientHeight,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), document.documentElement.dataset.zone || "UTC"),
    padding: [8, element.dataset.chart === "bars" ? 8 : LAST_TIME_PX, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { range: (_, first, last) => widened(element, first, last) }, y: { range: (_, low, high) => [Math.min(low, 0), Math.max(high, fine ? 1e-6 : 1) * 1.05] } },
    series: [{}, ...names.map((name, at) => ({ label: name, ...lineOf(element, strokes[at]) }))],
    axes: [
      { ...axis, size: 28, space: 64, values: (_, splits) => splits.map(clock) },
      { ...axis, size: AXIS_CHARS_PX, incrs: stepsOf(element), values: (_, splits) => splits.map((value) => (value ? written(element, value) : "0")) },
    ],
    hooks: { setCursor: [(chart) => read(element, chart)] },
  };
}

// Half a bar more at both ends, where the points are as far apart as the first two.
function widened(element, first, last) {
  const times = JSON.parse(element.dataset.points)[0];
  const half = element.dataset.chart === "bars" && times.length > 1 ? (times[1] - times[0]) / 2 : 0;
  return [first - half, last + half];
}

function lineOf(element, colour) {
  if (element.dataset.chart !== "bars") return { stroke: colour, width: 1.5, points: { show: false } };
  const paths = uPlot.paths.bars({ size: [BAR_WIDTH, MAX_BAR_PX] });
  return { paths, stroke: colour, fill: colour, width: 0, points: { show: false } };
}

// The values below the pointer stand in the legend, next to the names of their series.
function read(element, chart) {
  const legend = element.parentElement.querySelector(".legend");
  if (!legend) return;
  const at = chart.cursor.idx;
  [...legend.querySelectorAll("[data-value]")].forEach((text, number) => {
    const value = at === null || at === undefined ? null : drawn.get(element).data[number + 1][at];
    text.textContent = value === null || value === undefined ? "" : ` ${written(element, value)}`;
  });
}

function draw(element) {
  const points = element.dataset.points;
  const known = drawn.get(element);
  if (known && known.points === points) return;
  if (known) forget(element);
  const data = JSON.parse(points);
  if (!data[0].length) return;
  const shown = element.dataset.chart === "bars" ? stacked(data) : data;
  const chart = new uPlot(options(element, JSON.parse(element.dataset.names)), shown, element);
  drawn.set(element, { chart, points, data });
  places.observe(element);
}

// A chart follows its place: the window is not all that changes its width.
const places = new ResizeObserver((changes) => {
  for (const { target } of changes) drawn.get(target)?.chart.setSize({ width: target.clientWidth, height: target.clientHeight });
});

function forget(element) {
  places.unobserve(element);
  drawn.get(element).chart.destroy();
  drawn.delete(element);
}

function drawAll() {
  for (const element of [...drawn.keys()]) if (!element.isConnected) forget(element);
  document.querySelectorAll("[data-chart]").forEach(draw);
}

function redrawAll() {
  [...drawn.keys()].forEach(forget);
  drawAll();
}

document.addEventListener("DOMContentLoaded", drawAll);
document.addEventListener("duetime:swapped", drawAll);
document.addEventListener("duetime:theme", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
