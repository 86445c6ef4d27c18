/* Failures: why a task failed when it last ran, and when it runs again. */

import { h, icon } from "./dom.js";
import { moment } from "./format.js";
import { hasEnded } from "./words.js";

/** The heading of a list of failures. */
export function failuresHeading(rows) {
  return `Last run ${[...new Set(rows.map((row) => row.last_run.state))].join(" or ")}`;
}

/** The reason as a quotation, the attempts, and the next run of a task that recurs. */
export function failureView(row, due, now, reader) {
  const { summary, attempts } = row.last_run;
  return h("span", { class: "urgency" },
    summary ? h("span", { class: "why" }, summary) : "",
    attempts ? h("span", {}, `${attempts} attempt${attempts === 1 ? "" : "s"}`) : "",
    hasEnded(row) ? "" : h("span", {}, icon(row.paused ? "pause" : "clock"), row.paused ? "paused" : `next ${moment(due, reader, now)}`));
}

/** In any other list: that the last run of an open task failed. */
export function lastFailureView({ last_run: last }) {
  return last ? h("span", { class: "urgency" }, h("span", { class: "toned tone-danger" }, icon("cross"), `last run ${last.state}`)) : "";
}

/** The last run of a task as a row of a list has it: only one that failed. */
export function lastFailureOf({ last_run: last }) {
  return ["failed", "expired"].includes(last?.state) ? last : undefined;
}
