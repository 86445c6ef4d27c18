// Charts: an element with data-chart has its points as JSON, one list of times and one for each series.
"use strict";

const drawn = new Map();
const AXIS_CHARS_PX = 48;

function colours(element, count) {
  return Array.from({ length: count }, (_, at) => {
    const probe = document.createElement("span");
    probe.className = `series-${at + 1}`;
    element.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  });
}

function options(element, names) {
  const style = getComputedStyle(document.documentElement);
  const soft = getComputedStyle(element).color;
  const line = style.getPropertyValue("--line") ? getComputedStyle(element).borderTopColor : soft;
  const strokes = colours(element, names.length);
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  return {
    width: element.clientWidth,
    height: element.clientHeight,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), document.documentElement.dataset.zone || "UTC"),
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    scales: { y: { range: (_, low, high) => [Math.min(low, 0), Math.max(high, 1) * 1.05] } },
    series: [{}, ...names.map((name, at) => ({ label: name, stroke: strokes[at], width: 1.5, points: { show: false } }))],
    axes: [{ ...axis, size: 28 }, { ...axis, size: AXIS_CHARS_PX }],
    hooks: { setCursor: [(chart) => read(element, chart, names)] },
  };
}

// The values below the pointer stand in the legend, beside the names of their series.
function read(element, chart, names) {
  const legend = element.parentElement.querySelector(".legend");
  if (!legend) return;
  const at = chart.cursor.idx;
  [...legend.querySelectorAll("[data-value]")].forEach((text, number) => {
    const value = at === null || at === undefined ? null : chart.data[number + 1][at];
    text.textContent = value === null || value === undefined ? "" : ` ${Number(value).toLocaleString("en")}`;
  });
}

function draw(element) {
  const points = element.dataset.points;
  const known = drawn.get(element);
  if (known && known.points === points) return;
  if (known) known.chart.destroy();
  const data = JSON.parse(points);
  if (!data[0].length) return;
  const chart = new uPlot(options(element, JSON.parse(element.dataset.names)), data, element);
  drawn.set(element, { chart, points });
}

function drawAll() {
  for (const [element, { chart }] of drawn) {
    if (!element.isConnected) {
      chart.destroy();
      drawn.delete(element);
    }
  }
  document.querySelectorAll("[data-chart]").forEach(draw);
}

function redrawAll() {
  for (const [element, { chart }] of drawn) {
    chart.destroy();
    drawn.delete(element);
  }
  drawAll();
}

document.addEventListener("DOMContentLoaded", drawAll);
document.addEventListener("duetime:swapped", drawAll);
document.addEventListener("duetime:theme", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("resize", () => {
  for (const [element, { chart }] of drawn) chart.setSize({ width: element.clientWidth, height: element.clientHeight });
});
