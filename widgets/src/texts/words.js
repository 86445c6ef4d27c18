/* The words, icons and tones of states. A state is never told by colour alone. */

import { english, named } from "./language.js";

const LOOKS = {
  scheduled: ["clock", "info"],
  waiting: ["hourglass", "warning"],
  ready: ["play", "info"],
  held: ["hourglass", "warning"],
  running: ["play", "info"],
  stopping: ["ban", "warning"],
  suspended: ["hourglass", "warning"],
  retrying: ["retry", "warning"],
  succeeded: ["check", "success"],
  reminded: ["bell", "success"],
  failed: ["cross", "danger"],
  cancelled: ["ban", "quiet"],
  expired: ["alert", "danger"],
  skipped: ["skip", "quiet"],
  paused: ["pause", "quiet"],
  damaged: ["alert", "danger"],
  overdue: ["alert", "warning"],
  blocked: ["alert", "warning"],
  dry_run: ["clock", "quiet"],
};
const ENDED = new Set(["succeeded", "failed", "cancelled", "expired", "skipped"]);
const LATE_AFTER = 60_000;

/** The states of a task that did not succeed in time, or at all. */
export const FAILURES = new Set(["failed", "expired"]);

export function hasEnded(task) {
  return ENDED.has(task.state);
}

/** Whether there is a task behind this answer; the answer to a dry run has no real id. */
export function isStored(task) {
  return /^[ct]_.{12}$/.test(task.id ?? "");
}

/** Whether a task is a reminder that notifies somebody; in a row the server says so. */
export function reminds({ reminder, action, notify }) {
  return reminder || (action === "reminder" && !/never|failure/.test(notify));
}

/** Which look a task has now: its state, unless something stands before it. What is held back looks so, by the same word. */
export function lookOf(task, due, now) {
  if (!isStored(task)) return "dry_run";
  if (hasEnded(task)) return task.state === "succeeded" && reminds(task) ? "reminded" : task.state;
  if (task.damaged) return "damaged";
  if (task.cancel_requested) return "stopping";
  if (task.paused) return "paused";
  if (task.blocked) return "blocked";
  if (task.state === "scheduled" && now - due > LATE_AFTER) return "overdue";
  if (task.state === "ready" && ((task.waiting_for ?? task.waits)?.length || now - due > LATE_AFTER)) return "held";
  return task.state;
}

/** Word, icon and tone of a look; one that is not known yet is shown by its own name. */
export function wordsOf(look) {
  const [picture, tone] = LOOKS[look] ?? ["clock", "quiet"];
  return { word: named("state", look === "held" ? "ready" : look), picture, tone };
}

/** A sentence of the server, which is English, for people, to whom ids say nothing. */
export function withoutIds(text) {
  return text.replace(/\b[ct]_[0-9a-z]{12}\b/g, english("model.another_task"));
}

/** Text of users next to ours, as a quotation that it cannot close, without characters that could disguise it. */
export function fenced(text) {
  return `«${String(text).replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ").replace(/«/g, "‹").replace(/»/g, "›").slice(0, 200)}»`;
}
