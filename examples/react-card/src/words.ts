/* States and times as people say them; a word that is not known yet is shown as it is. */

export type Tone = "quiet" | "info" | "success" | "warning" | "danger";

const LOOKS: Record<string, readonly [string, Tone, string]> = {
  scheduled: ["Scheduled", "info", "◷"],
  waiting: ["Waiting", "warning", "◔"],
  ready: ["Ready", "info", "▷"],
  running: ["Running", "info", "▶"],
  stopping: ["Stopping", "warning", "◼"],
  suspended: ["Suspended", "warning", "◔"],
  retrying: ["Trying again", "warning", "↻"],
  succeeded: ["Succeeded", "success", "✓"],
  reminded: ["Reminded", "success", "✓"],
  failed: ["Failed", "danger", "✕"],
  cancelled: ["Cancelled", "quiet", "⊘"],
  expired: ["Expired", "danger", "!"],
  skipped: ["Skipped", "quiet", "»"],
  paused: ["Paused", "quiet", "‖"],
  damaged: ["Damaged", "danger", "!"],
  blocked: ["Blocked", "danger", "⊟"],
  overdue: ["Overdue", "warning", "!"],
  dry_run: ["Dry run", "quiet", "·"],
};
const ENDED = new Set(["succeeded", "failed", "cancelled", "expired", "skipped"]);
const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]] as const;

const LATE_AFTER_MS = 60_000;
const DRY_RUN_ID = "dry-run";

interface Stateful {
  state: string;
  id?: string;
  when?: string | { utc: string };
  action?: string;
  reminder?: true;
  paused?: true;
  damaged?: true;
  blocked?: true;
  cancel_requested?: true;
}

export function hasEnded(state: string): boolean {
  return ENDED.has(state);
}

/** Word, tone and sign of a task's state, or of what stands before it. */
export function lookOf(task: Stateful): { word: string; tone: Tone; sign: string } {
  const [word, tone, sign] = LOOKS[nameOf(task)] ?? [task.state, "quiet", "·"];
  return { word, tone, sign };
}

function nameOf(task: Stateful): string {
  if (task.id === DRY_RUN_ID) return "dry_run";
  const reminds = task.reminder || task.action === "reminder";
  if (hasEnded(task.state)) return task.state === "succeeded" && reminds ? "reminded" : task.state;
  if (task.damaged) return "damaged";
  if (task.cancel_requested) return "stopping";
  if (task.paused) return "paused";
  if (task.blocked) return "blocked";
  return task.state === "scheduled" && isLate(task.when) ? "overdue" : task.state;
}

/** Whether what was due has not left its timer. */
function isLate(when: Stateful["when"]): boolean {
  return when !== undefined && Date.now() - Date.parse(typeof when === "string" ? when : when.utc) > LATE_AFTER_MS;
}

/** An instant in the reader's zone and language. */
export function moment(utc: string): string {
  const at = new Date(utc);
  return at.toLocaleString(undefined, { weekday: "short", day: "numeric", month: "short", hour: "numeric", minute: "2-digit" });
}

export function relative(utc: string, now: number): string {
  const seconds = Math.round((Date.parse(utc) - now) / 1000);
  const [unit, length] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(undefined, { numeric: "auto" }).format(Math.round(seconds / length), unit);
}
