/* The types of the payloads; `npm run types` writes them from the published JSON Schemas. */

export type { ListRow as Row, UrnDuetimePayloadList1 as TaskPage } from "./generated/list";
export type { UrnDuetimePayloadTask1 as Task } from "./generated/task";
