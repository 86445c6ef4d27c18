/* One way to pass calls on: the REST API, at the same origin or behind a proxy of the chat. */

import type { Act, ToolCall } from "./actions";

interface Request {
  method: "GET" | "POST";
  path: string;
  body?: Record<string, unknown>;
}

/** Return an `Act` that sends calls to `base` (`https://duetime.example.com/v1`); keep keys on your server. */
export function restAct(base: string, headers: Record<string, string> = {}): Act {
  return async (call) => {
    const { method, path, body } = requestOf(call);
    const { revision } = call.arguments;
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        ...headers,
        ...(body && { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() }),
        ...(revision !== undefined && { "If-Match": `"${revision}"` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    }).catch(() => undefined);
    const answer: unknown = await response?.json().catch(() => undefined);
    if (!response?.ok) throw new Error(reasonIn(answer));
    return answer;
  };
}

function requestOf({ name, arguments: given }: ToolCall): Request {
  const { task_id: id, revision: _revision, action, pause, ...body } = given;
  const path = `/tasks/${encodeURIComponent(id)}`;
  switch (name) {
    case "get_task":
      return { method: "GET", path };
    case "cancel_task":
      return { method: "POST", path: `${path}/cancel`, body };
    case "reschedule_task":
      return { method: "POST", path: `${path}/${pause ? "pause" : "resume"}`, body };
    case "act_on_task":
      return { method: "POST", path: `${path}/${action}`, body };
  }
}

/** A refusal is `problem+json`, whose `detail` is a sentence for people. */
function reasonIn(answer: unknown): string {
  const detail = (answer as { detail?: unknown } | null | undefined)?.detail;
  return typeof detail === "string" ? detail : "Duetime cannot be reached.";
}
