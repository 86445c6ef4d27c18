// A program that knows the API by its generated types alone. It prints what it saw, for the test to judge.
import createClient from "openapi-fetch";
import type { components, paths } from "./duetime.js";

type Task = components["schemas"]["TaskPayload"];

const server = process.argv[2] ?? "";
const api = createClient<paths>({
  baseUrl: `${server}/v1`,
  headers: { Authorization: `Bearer ${process.env["API_KEY"] ?? ""}` },
});

function found<T>(answer: { data?: T; error?: { detail: string } }): T {
  if (answer.data === undefined) throw new Error(answer.error?.detail ?? "no answer");
  return answer.data;
}

async function schedule(title: string, key: string): Promise<Task> {
  const body = { title, when: "in 2 hours", priority: "high" as const, labels: ["typed"] };
  return found(await api.POST("/tasks", { body, params: { header: { "Idempotency-Key": key } } }));
}

const first = await schedule("Pay the rent", "k-1");
const again = await schedule("Pay the rent", "k-1");
await schedule("Call John", "k-2");

const titles: string[] = [];
for (let cursor: string | undefined, more = true; more; ) {
  const query = { label: "typed", limit: 1, ...(cursor ? { cursor } : {}) };
  const page = found(await api.GET("/tasks", { params: { query } }));
  titles.push(...page.tasks.map((row) => row.title));
  cursor = page.cursor ?? undefined;
  more = cursor !== undefined;
}

const path = { task_id: first.id };
const changed = await api.PATCH("/tasks/{task_id}", {
  params: { path, header: { "If-Match": '"1"' } },
  body: { when: "in 3 hours" },
});
const late = await api.PATCH("/tasks/{task_id}", {
  params: { path, header: { "If-Match": '"1"' } },
  body: { title: "Too late" },
});
const cancelled = found(await api.POST("/tasks/{task_id}/cancel", { params: { path }, body: { reason: "moved" } }));
const runs = found(await api.GET("/runs", { params: { query: { state: "cancelled" } } }));

// @ts-expect-error - there is no such priority, and the types know it
const refused = await api.POST("/tasks", { body: { title: "x", when: "now", priority: "urgent" } });
// @ts-expect-error - a task needs a title
await api.POST("/tasks", { body: { when: "now" } });

console.log(
  JSON.stringify({
    sameTask: first.id === again.id,
    titles,
    etag: changed.response.headers.get("ETag"),
    stale: late.error?.revision,
    state: cancelled.state,
    runs: runs.runs.map((run) => run.state),
    refused: refused.error?.code,
  }),
);
