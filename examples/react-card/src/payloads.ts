/* The types of the payloads; `npm run types` writes them from the published JSON Schemas. */

import type { UrnDuetimePayloadChain1 as ChainPayload } from "./generated/chain";
import type { UrnDuetimePayloadTask1 as TaskPayload } from "./generated/task";

export type { ListRow as Row, UrnDuetimePayloadList1 as TaskPage } from "./generated/list";
export type Task = TaskPayload;

/** A whole chain: a task with its steps. */
export type Chain = ChainPayload;
export type Step = Chain["chain"]["steps"][number];

export function isChain(task: Task): task is Chain {
  return task.chain?.steps !== undefined;
}
