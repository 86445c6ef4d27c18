/* The types of the payloads; `npm run types` writes them from the published JSON Schemas. */

import type { UrnDuetimePayloadChain1 as ChainPayload } from "./generated/chain";
import type { UrnDuetimePayloadTask1 as TaskPayload } from "./generated/task";

export type { ListRow as Row, UrnDuetimePayloadList1 as TaskPage } from "./generated/list";
export type Task = TaskPayload;

/** A whole chain: a task with its steps. */
export type Chain = ChainPayload;
export type Step = Chain["chain"]["steps"][number];

/** What a card shows of a task: a run that comes before the next one of its `series`, or runs now, stands in its place. */
export type Shown = Task & { series?: Task["when"] };

export function shownOf(task: Task): Shown {
  if (!task.extra_run) return task;
  const { deadline, relative_deadline, ...rest } = task; // those of the next run of the series
  return { ...rest, ...task.extra_run, series: task.when };
}

export function isChain(task: Task): task is Chain {
  return task.chain?.steps !== undefined;
}
