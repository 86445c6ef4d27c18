/* What a task waits for, for a person: no tool, no id, no arithmetic of pools, a distance in place of a length. */

import { fact, h } from "../page/dom.js";
import { moment, relative } from "../texts/format.js";
import { isNamed, listed, named, parts, t } from "../texts/language.js";
import { withoutIds } from "../texts/words.js";

/** One thing in a line, several in a list. */
export function waitingFact({ task, env }) {
  const said = (task.waiting_for ?? []).map((sentence, place) => lineOf(task.waits?.[place] ?? {}, sentence, env));
  const lines = [...new Map(said.map((line) => [line.map((part) => part.textContent ?? part).join(""), line])).values()];
  if (lines.length === 0) return "";
  return fact("hourglass", t("waits.name"), lines.length === 1 ? lines[0] : h("ul", { class: "reasons" }, lines.map((line) => h("li", {}, line))));
}

/** A reason in the reader's language; one of a kind that this card does not know, as the server says it. */
export function lineOf({ kind, count, pool, until, after, task, title, state, event, match, goes_on, default_answer }, sentence, env) {
  if (kind === "more") return [`+${count}`];
  if (kind === "task" && title) return [...parts("wait.task_named", { title: h("bdi", { title: task ?? "" }, title) }), aside(named("state", state))];
  if (!isNamed("wait", kind)) return parts("waits.for", { reason: h("bdi", { lang: "en" }, withoutIds(sentence)) });
  const at = Date.parse(until);
  if (kind === "resume" && until) return parts("wait.paused_until", { time: moment(at, env.reader(), env.clock.now()) });
  const time = at > env.clock.now() ? relative(at, env.clock.now(), env.reader()) : t("waits.soon");
  const line = parts(`wait.${kind}`, { pool: h("bdi", {}, pool ?? ""), event: h("bdi", {}, listed((event ?? "").split(", "), "disjunction")), time });
  const first = { approval: title, blocked: after, event: match }[kind];
  const details = [first, until && !line.includes(time) ? waitEnd(kind, time, default_answer ?? goes_on) : "", first === after ? "" : after].filter(Boolean);
  return [...line, ...details.map(aside)];
}

/** What the time of a wait means: its end and what follows without an answer, an event or a stop, or the next look. */
function waitEnd(kind, time, then) {
  const ends = { true: "waits.goes", false: "waits.stops", approve: "waits.approve", reject: "waits.reject" }[then] ?? "waits.ends";
  const key = { approval: ends, event: ends, stop: ends, blocked: "waits.again" }[kind];
  return key ? t(key, { time }) : time;
}

function aside(text) {
  return h("span", { class: "summary" }, h("bdi", {}, text));
}
