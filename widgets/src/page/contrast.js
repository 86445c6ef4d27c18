/* Colours of a host that are too near to each other are moved apart, as far as everybody needs to tell them apart. */

const TEXT_RATIO = 4.5;
const SHAPE_RATIO = 3;
const MIXES = 20;
const WHITE = [255, 255, 255];
const BLACK = [0, 0, 0];
const TONES = ["info", "success", "warning", "danger"];
const GROUNDS = ["bg", "raise"];
const EVERYWHERE = [...GROUNDS, ...TONES.map((tone) => `${tone}-bg`)];

/** Which colours stand on which grounds, and how far from all of them they have to be. */
const PAIRS = [
  ["fg", EVERYWHERE, TEXT_RATIO],
  ["fg2", EVERYWHERE, TEXT_RATIO],
  ...TONES.map((tone) => [tone, [...GROUNDS, `${tone}-bg`], TEXT_RATIO]),
  ["edge", GROUNDS, SHAPE_RATIO],
  ["ring", GROUNDS, SHAPE_RATIO],
];

/** Give the root colours of its own for those of the host that are too faint; earlier ones are forgotten. */
export function guardContrast(root) {
  for (const [name] of PAIRS) root.style.removeProperty(`--${name}`);
  const probe = root.appendChild(document.createElement("i"));
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colourOf = (name) => solid(canvas, probe, name);
  const moved = PAIRS.map(([name, grounds, wanted]) => [name, apart(colourOf(name), grounds.map(colourOf), wanted)]);
  probe.remove();
  for (const [name, colour] of moved) if (colour) root.style.setProperty(`--${name}`, `rgb(${colour.join(" ")})`);
}

/** What a token looks like over the card's own ground, whatever notation and transparency the host has chosen. */
function solid(canvas, probe, name) {
  for (const token of ["bg", name]) {
    probe.style.color = `var(--${token})`;
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
  }
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

/** A colour that is far enough from all grounds, or nothing where the given one is. */
function apart(colour, grounds, wanted) {
  const least = (one) => Math.min(...grounds.map((ground) => contrast(one, ground)));
  if (least(colour) >= wanted) return undefined;
  const target = least(WHITE) > least(BLACK) ? WHITE : BLACK;
  const steps = Array.from({ length: MIXES }, (_, step) => mixed(colour, target, (step + 1) / MIXES));
  return steps.find((step) => least(step) >= wanted) ?? target;
}

function mixed(one, other, part) {
  return one.map((value, place) => Math.round(value + (other[place] - value) * part));
}

/** The ratio of WCAG 2: 1 for one colour, 21 for black on white. */
function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour) {
  const [red, green, blue] = colour.map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
