/* The words, icons and tones of states, actions and events. A state is never told by colour alone. */

const LOOKS = {
  scheduled: ["Scheduled", "clock", "info"],
  waiting: ["Waiting", "hourglass", "warning"],
  ready: ["Starting", "play", "info"],
  held: ["Held", "hourglass", "warning"],
  running: ["Running", "play", "info"],
  stopping: ["Stopping", "ban", "warning"],
  suspended: ["Suspended", "hourglass", "warning"],
  retrying: ["Trying again", "retry", "warning"],
  succeeded: ["Succeeded", "check", "success"],
  failed: ["Failed", "cross", "danger"],
  cancelled: ["Cancelled", "ban", "quiet"],
  expired: ["Expired", "alert", "danger"],
  skipped: ["Skipped", "skip", "quiet"],
  paused: ["Paused", "pause", "quiet"],
  damaged: ["Damaged", "alert", "danger"],
  overdue: ["Overdue", "alert", "warning"],
  dry_run: ["Dry run", "clock", "quiet"],
};
const ENDED = new Set(["succeeded", "failed", "cancelled", "expired", "skipped"]);
const LATE_AFTER = 60_000;

export function hasEnded(task) {
  return ENDED.has(task.state);
}

/** Whether there is a task behind this answer; the answer to a dry run has no real id. */
export function isStored(task) {
  return /^t_.{12}$/.test(task.id ?? "");
}

/** Which look a task has now: its state, unless it is damaged, paused, late, held back by something, or not there at all. */
export function lookOf(task, due, now) {
  if (!isStored(task)) return "dry_run";
  if (task.damaged && !hasEnded(task)) return "damaged";
  if (task.paused && !hasEnded(task)) return "paused";
  if (task.cancel_requested) return "stopping";
  if (task.state === "scheduled" && now - due > LATE_AFTER) return "overdue";
  if (task.state === "ready" && (task.waiting_for?.length || now - due > LATE_AFTER)) return "held";
  return task.state;
}

/** Word, icon and tone of a look; one that is not known yet is shown by its own name. */
export function wordsOf(look) {
  const [word, picture, tone] = LOOKS[look] ?? [spoken(look), "clock", "quiet"];
  return { word, picture, tone };
}

/** A name from the wire as words: "cancel_requested" is "Cancel requested". */
export function spoken(name) {
  const words = String(name).replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Text of users beside ours, as a quotation that it cannot close, without characters that could disguise it. */
export function fenced(text) {
  return `«${String(text).replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ").replace(/«/g, "‹").replace(/»/g, "›").slice(0, 200)}»`;
}

/** What each action says while it happens, and once it has. */
export const ACTIONS = {
  snooze: { doing: "Snoozing…", did: "Snoozed" },
  change: { doing: "Moving…", did: "Moved" },
  pause: { doing: "Pausing…", did: "Paused" },
  resume: { doing: "Resuming…", did: "Resumed" },
  skip_next: { doing: "Skipping…", did: "Next occurrence skipped" },
  run_now: { doing: "Starting…", did: "Started" },
  done: { doing: "Marking as done…", did: "Marked as done" },
  cancel: { doing: "Cancelling…", did: "Cancelled" },
  undo: { doing: "Undoing…", did: "Cancelling undone" },
};
