/* The buttons that the state of a task allows, each with the call that it makes. */

import { isChain, type Shown, type Task } from "./payloads";
import { hasEnded, moment } from "./words";

/** A call of a tool of Duetime; the host passes it on, over MCP or REST. */
export interface ToolCall {
  name: "act_on_task" | "cancel_task" | "reschedule_task" | "get_task";
  arguments: { task_id: string } & Record<string, string | number | boolean>;
}

/** Passes a call on and returns the result of the tool, or rejects with a reason for people. */
export type Act = (call: ToolCall) => Promise<unknown>;

export interface Button {
  key: string;
  label: string;
  call: ToolCall;
}

const SNOOZE_MINUTES = 10;
const NEAR_MS = 3_600_000;
const UNDO_MS = 30_000;
const STORED = /^[tc]_.{12}$/;
const MOVABLE = new Set(["scheduled", "waiting", "ready", "retrying", "suspended"]);
const FIRED = new Set(["succeeded", "failed", "expired"]);

export function buttonsOf(task: Shown, now: number): Button[] {
  if (!STORED.test(task.id)) return []; // the answer to a dry run has no task behind it
  if (task.damaged) return hasEnded(task.state) ? [] : [cancel(task)];
  if (isChain(task)) return [...undo(task, now), ...(asksOnce(task) ? answers(task) : []), ...lasting(task)];
  if (asked(task).length) return [...undo(task, now), ...answers(task), ...lasting(task)];
  return [...undo(task, now), ...outcome(task), ...snooze(task, now), ...coming(task)];
}

function undo(task: Task, now: number): Button[] {
  if (!task.undo || now - Date.parse(task.now) > UNDO_MS) return [];
  return [{ key: "undo", label: "Undo", call: act(task, "undo", { undo: task.undo }) }];
}

/** What the user is asked before it runs. */
function asked({ waits }: Task): (string | undefined)[] {
  return (waits ?? []).filter(({ kind }) => kind === "approval").map(({ title }) => title);
}

/** Whether all steps of a chain that ask, ask the same; else each is answered on its own card. */
function asksOnce(task: Task): boolean {
  return new Set(asked(task)).size === 1;
}

function answers(task: Task): Button[] {
  return [
    { key: "approve", label: "Approve", call: act(task, "approve") },
    { key: "reject", label: "Reject", call: act(task, "reject") },
  ];
}

/** What can be done with an outcome: take note of it, or run again what failed. */
function outcome(task: Task): Button[] {
  const done = { key: "done", label: "Done", call: act(task, "done") };
  const again = { key: "run-again", label: "Run again", call: act(task, "run_now") };
  const runsAgain = task.state === "succeeded" ? task.action !== "reminder" : FIRED.has(task.state);
  return [...(task.unread?.length ? [done] : []), ...(runsAgain ? [again] : [])];
}

/** A snooze is for what has fired or is due within the hour. */
function snooze(task: Task, now: number): Button[] {
  const near = MOVABLE.has(task.state) && !task.paused && Date.parse(task.when.utc) - now <= NEAR_MS;
  if (!near && !FIRED.has(task.state)) return [];
  const call = act(task, "snooze", { minutes: SNOOZE_MINUTES });
  return [{ key: "snooze", label: `Snooze ${SNOOZE_MINUTES} min`, call }];
}

function coming(task: Shown): Button[] {
  if (hasEnded(task.state)) return [];
  const runs = task.state === "running" || task.repeat?.approval !== undefined; // it would go around the question
  const buttons = runs ? [] : [{ key: "run-now", label: "Run now", call: act(task, "run_now") }];
  if (task.repeat) buttons.push({ key: "skip-next", label: task.series ? `Skip next: ${moment(task.series.utc)}` : "Skip next", call: act(task, "skip_next") });
  return [...buttons, ...lasting(task)];
}

/** What can be done as long as it has not ended. */
function lasting(task: Shown): Button[] {
  if (hasEnded(task.state)) return [];
  const pause: Button = {
    key: task.paused ? "resume" : "pause",
    label: task.paused ? "Resume" : "Pause",
    call: { name: "reschedule_task", arguments: { ...named(task), pause: !task.paused } },
  };
  return [pause, ...(task.cancel_requested ? [] : [cancel(task)])];
}

/** Of a series of which another run is shown, it cancels all runs. */
function cancel(task: Shown): Button {
  return { key: "cancel", label: task.series && task.repeat ? `Cancel: ${task.repeat.text}` : "Cancel", call: { name: "cancel_task", arguments: named(task) } };
}

function act(task: Task, action: string, more: Record<string, string | number> = {}): ToolCall {
  return { name: "act_on_task", arguments: { ...named(task), action, ...more } };
}

/** The revision that the card shows: a call that another change came before is refused. */
function named(task: Task): { task_id: string; revision: number } {
  return { task_id: task.id, revision: task.revision };
}
