/* What a chat has of a tool call, as one of five kinds that a card can show. */

import type { Task, TaskPage } from "./payloads";

export type Answer =
  | { kind: "loading"; title?: string }
  | { kind: "task"; task: Task }
  | { kind: "list"; page: TaskPage }
  | { kind: "refused"; text: string }
  | { kind: "unreadable" };

type Members = Record<string, unknown>;

/** A part `tool-schedule_task` (or `dynamic-tool`) of a message of the Vercel AI SDK. */
export interface ToolPart {
  state: string;
  input?: unknown;
  output?: unknown;
  errorText?: string | undefined;
}

export function fromToolPart({ state, input, output, errorText }: ToolPart): Answer {
  if (state === "output-error") return refused(errorText);
  if (state === "output-denied") return refused("This call was not allowed.");
  return state === "output-available" ? read(output) : loading(input);
}

/** What CopilotKit hands to the `render` of a tool: its result is text. */
export interface RenderedCall {
  status: string;
  parameters?: unknown;
  result?: unknown;
}

export function fromRenderedCall({ status, parameters, result }: RenderedCall): Answer {
  return status === "complete" ? read(result) : loading(parameters);
}

/** Read the result of a tool (`structuredContent`, or its text when it is an error), a payload itself, or either as JSON. */
export function read(value: unknown): Answer {
  const given = typeof value === "string" ? parsed(value) : value;
  if (!isObject(given)) return { kind: "unreadable" };
  if (given["isError"] === true) return refused(textOf(given["content"]));
  const payload = given["structuredContent"] ?? given;
  if (isTask(payload)) return { kind: "task", task: payload };
  return isPage(payload) ? { kind: "list", page: payload } : { kind: "unreadable" };
}

function loading(input: unknown): Answer {
  const title = isObject(input) ? input["title"] : undefined;
  return typeof title === "string" ? { kind: "loading", title } : { kind: "loading" };
}

function refused(text: string | undefined): Answer {
  return { kind: "refused", text: text || "Duetime gave no reason." };
}

function textOf(content: unknown): string {
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  return blocks.map((block) => block["text"]).filter((text) => typeof text === "string").join("\n");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether the parts that a card always shows are there; the server keeps the promise of the schema for the others. */
function isTask(value: unknown): value is Task {
  if (!isObject(value) || value["schema"] !== "duetime.task/1" || !isObject(value["when"])) return false;
  const texts = [value["id"], value["title"], value["state"], value["action"], value["now"]];
  return areTexts(texts) && Number.isInteger(value["revision"]) && isTime(value["when"]["utc"]);
}

function isPage(value: unknown): value is TaskPage {
  if (!isObject(value) || value["schema"] !== "duetime.list/1") return false;
  return Array.isArray(value["tasks"]) && value["tasks"].every(isRow) && isObject(value["counts"]);
}

function isRow(row: unknown): boolean {
  return isObject(row) && areTexts([row["id"], row["title"], row["state"]]) && isTime(row["when"]);
}

function areTexts(values: unknown[]): boolean {
  return values.every((value) => typeof value === "string");
}

function isTime(value: unknown): boolean {
  return typeof value === "string" && !Number.isNaN(Date.parse(value));
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
