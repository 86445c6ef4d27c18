/* What a task waits for, for a person: no tool, no arithmetic of pools, a distance in place of a length. */

import { fact, h } from "./dom.js";
import { relative } from "./format.js";
import { parts, t } from "./language.js";

const LENGTHS = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1_000 };

/** The reasons as the server writes them, by how they begin; any other is shown as it is. */
const KINDS = [
  [/^paused/, "waits.resume"],
  [/^its handler/, "waits.stop"],
  [/^attempt /, "waits.attempt"],
  [/^its next step/, "waits.step"],
  [/^pool ([^:]+(?::[^: ]+)?): /, "waits.pool"],
  [/^its turn/, "waits.turn"],
  [/^worker .* about to start/, "waits.start"],
  [/^(a free worker|until )/, "waits.room"],
  [/^(a worker|a process|a dispatcher|Redis|the queue)/, "waits.nobody"],
];

/** One thing in a line, several in a list. */
export function waitingFact({ task, env }) {
  const lines = [...new Map((task.waiting_for ?? []).map((reason) => lineOf(reason, task, env)).map((line) => [line.map((part) => part.textContent ?? part).join(""), line])).values()];
  if (lines.length === 0) return "";
  return fact("hourglass", t("waits.name"), lines.length === 1 ? lines[0] : h("ul", { class: "reasons" }, lines.map((line) => h("li", {}, line))));
}

function lineOf(reason, task, env) {
  const [head, said] = reason.split(/,? after: (.*)/s);
  const [pattern, key] = KINDS.find(([begins]) => begins.test(head)) ?? [/^/, "waits.for"];
  const line = parts(key, { reason: head, pool: h("bdi", {}, pattern.exec(head)[1] ?? ""), time: whenIn(head, task, env) });
  return said ? [...line, h("span", { class: "summary" }, h("bdi", {}, said))] : line;
}

/** The distance in a reason ("in 1 h 59 min") as the reader says it, from now on. */
function whenIn(head, task, env) {
  const found = [...(/ in ((?:\d+ (?:d|h|min|s) ?)+)/.exec(head)?.[1] ?? "").matchAll(/(\d+) (d|h|min|s)/g)];
  const at = found.reduce((sum, [, count, unit]) => sum + Number(count) * LENGTHS[unit], Date.parse(task.now));
  return found.length && at > env.clock.now() ? relative(at, env.clock.now(), env.reader()) : t("waits.soon");
}
