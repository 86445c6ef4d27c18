/* What a task asks for: by when, how urgently, how long it takes and what it holds; with the bar of time to spare. */

import { isChain } from "./chain.js";
import { bar, fact, h } from "../page/dom.js";
import { moment, placed, relative } from "../texts/format.js";
import { named, parts, t } from "../texts/language.js";
import { hasEnded } from "../texts/words.js";

const NOT_DONE = new Set(["cancelled", "skipped"]);

/** How a deadline stands now: "ok", "tight" when even starting now is too late, "missed"; empty without one. */
export function deadlineLook(task, now) {
  if (!task?.deadline || NOT_DONE.has(task.state)) return "";
  if (task.deadline.missed) return "missed";
  if (hasEnded(task)) return "";
  if (now > Date.parse(task.deadline.utc)) return "missed";
  return spare(task, now) < 0 ? "tight" : "ok";
}

/** The time that the work itself needs, as the server reckons it. */
function needed({ deadline, now }) {
  return Math.max(0, Date.parse(deadline.utc) - Date.parse(now) - (deadline.laxity_seconds ?? 0) * 1000);
}

function spare(task, now) {
  return Date.parse(task.deadline.utc) - now - needed(task);
}

export function deadlineFact({ task, env }) {
  const [now, reader, later] = [env.clock.now(), env.reader(), task.relative_deadline];
  const look = later ? "later" : deadlineLook(task, now);
  if (!look) return "";
  return fact("flag", t("field.deadline"), later ? h("span", { "data-deadline": look }, t(isChain(task) ? "deadline.after_last" : "deadline.after", { time: later.after })) : finish(task, look, now, reader),
    h("span", { class: "summary" }, named("deadline", (later ?? task.deadline).type)));
}

function finish(task, look, now, reader) {
  const instant = Date.parse(task.deadline.utc);
  const at = placed(instant, task.deadline.local, task.when.timezone, reader);
  const until = h("time", { datetime: task.deadline.utc }, moment(at.ms, at.reader, now));
  const tone = { tight: "toned tone-warning", missed: "toned tone-danger" }[look] ?? "";
  return [h("span", { class: tone, "data-deadline": look }, parts(look === "missed" ? "deadline.missed" : "deadline.by", { time: until })),
    look === "missed" ? "" : [" ", h("span", { class: "quiet", "data-at": instant }, relative(instant, now, reader)), barOf(task, now, look)]];
}

/** Of the time from when it can start until it must be finished, the part that the work takes, at the end of the bar. */
function barOf(task, now, look) {
  const start = Math.max(now, Date.parse(task.when.utc));
  const whole = Date.parse(task.deadline.utc) - start;
  const part = whole > 0 ? Math.min(1, needed(task) / whole) : 1;
  return h("span", { class: `laxity ${look === "tight" ? "tone-warning" : "tone-info"}` }, bar(part));
}

export function needsFact({ estimate, needs = {} }) {
  const held = Object.entries(needs).map(([pool, units]) => h("span", { class: "label" }, h("bdi", {}, pool), ` ${units}`));
  if (!estimate && held.length === 0) return "";
  return fact("stack", t("takes.name"), estimate ? t("takes.about", { duration: estimate }) : t("takes.holds"), " ", held);
}

/** The tier, where it is not the normal one. */
export function tierView({ priority }) {
  if (!priority) return "";
  const tone = priority === "critical" ? "danger" : priority === "high" ? "warning" : "quiet";
  const heard = (part) => (typeof part === "string" ? h("span", { class: "sr" }, part) : part);
  return h("span", { class: `tier tone-${tone}`, "data-tier": priority }, parts("tier.name", { tier: h("span", {}, named("tier", priority)) }).map(heard));
}
