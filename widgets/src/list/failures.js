/* Failures: why a task failed when it last ran, and when it runs again. */

import { h, icon } from "../page/dom.js";
import { moment } from "../texts/format.js";
import { inside, listed, t } from "../texts/language.js";
import { FAILURES, hasEnded, wordsOf } from "../texts/words.js";

/** The heading of a list of failures. */
export function failuresHeading(rows) {
  const states = [...new Set(rows.map((row) => row.last_run.state))];
  return t("failures.heading", { states: listed(states.map((state) => inside(wordsOf(state).word)), "disjunction") });
}

/** The reason as a quotation, the attempts, and the next run of a task that recurs. */
export function failureView(row, due, now, reader) {
  const { summary, attempts } = row.last_run;
  return h("span", { class: "urgency" },
    summary ? h("span", { class: "why" }, summary) : "",
    attempts ? h("span", {}, t("row.attempts", { count: attempts })) : "",
    hasEnded(row) ? "" : h("span", {}, icon(row.paused ? "pause" : "clock"), row.paused ? t("row.paused") : t("row.next", { time: moment(due, reader, now) })));
}

/** In any other list: that the last run of an open task failed, in what one is not as expected, or what a blocked one misses. */
export function lastFailureView({ last_run: last, why }) {
  const said = why ?? last?.unverified;
  if (said) return h("span", { class: "urgency" }, h("span", { class: "why" }, said));
  return last ? h("span", { class: "urgency" }, h("span", { class: "toned tone-danger" }, icon("cross"), t("row.last_run", { state: inside(wordsOf(last.state).word) }))) : "";
}

/** The last run of a task as a row of a list has it: only one that failed, or is not as expected. */
export function lastFailureOf({ last_run: last }) {
  return last?.unverified || FAILURES.has(last?.state) ? last : undefined;
}
