/* A turn of the Vercel AI SDK as the events of AG-UI, which CopilotKit reads: text, calls of tools, and their results. */

import type { RunAgentInput } from "@ag-ui/client";
import type { TextStreamPart, ToolSet } from "ai";

type Event = { type: string } & Record<string, unknown>;

/** What the browser shows for an error of the provider, which may name keys and addresses: those are for the server's log. */
const FAILED = "The answer failed. Try again.";

/** `stop` ends the turn when nobody reads on. */
export function agentEvents({ threadId, runId }: RunAgentInput, parts: AsyncIterable<TextStreamPart<ToolSet>>, stop: () => void): ReadableStream {
  const run = { threadId, runId };
  const encoder = new TextEncoder();
  const texts = new Map<string, string>();
  let read = true;
  return new ReadableStream({
    async start(stream) {
      const send = (event: Event) => read && stream.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
      let end: Event = { type: "RUN_FINISHED", ...run };
      send({ type: "RUN_STARTED", ...run });
      for await (const part of parts) {
        if (part.type === "error") end = { type: "RUN_ERROR", message: FAILED };
        eventsOf(part, texts).forEach(send);
      }
      send(end);
      if (read) stream.close();
    },
    cancel() {
      read = false;
      stop();
    },
  });
}

/** `texts` has the message of each text: providers use the id of a text again, in the next step as in the next turn. */
function eventsOf(part: TextStreamPart<ToolSet>, texts: Map<string, string>): Event[] {
  switch (part.type) {
    case "text-start":
      texts.set(part.id, crypto.randomUUID());
      return [];
    case "text-delta":
      return [{ type: "TEXT_MESSAGE_CHUNK", messageId: texts.get(part.id), role: "assistant", delta: part.text }];
    case "tool-call":
      return [
        { type: "TOOL_CALL_START", toolCallId: part.toolCallId, toolCallName: part.toolName },
        { type: "TOOL_CALL_ARGS", toolCallId: part.toolCallId, delta: JSON.stringify(part.input) },
        { type: "TOOL_CALL_END", toolCallId: part.toolCallId },
      ];
    case "tool-result":
      return [resultOf(part.toolCallId, part.output)];
    case "tool-error":
      return [resultOf(part.toolCallId, { isError: true, content: [{ type: "text", text: String(part.error) }] })];
    default:
      return [];
  }
}

function resultOf(toolCallId: string, result: unknown): Event {
  return { type: "TOOL_CALL_RESULT", messageId: `result_${toolCallId}`, toolCallId, role: "tool", content: JSON.stringify(result) };
}
