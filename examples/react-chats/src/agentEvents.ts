/* A turn of the Vercel AI SDK as the events of AG-UI, which CopilotKit reads: text, calls of tools, and their results. */

import type { RunAgentInput } from "@ag-ui/client";
import type { TextStreamPart, ToolSet } from "ai";

type Event = { type: string } & Record<string, unknown>;

export function agentEvents({ threadId, runId }: RunAgentInput, parts: AsyncIterable<TextStreamPart<ToolSet>>): ReadableStream {
  const run = { threadId, runId };
  const encoder = new TextEncoder();
  return new ReadableStream({
    async start(stream) {
      const send = (event: Event) => stream.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
      let end: Event = { type: "RUN_FINISHED", ...run };
      send({ type: "RUN_STARTED", ...run });
      for await (const part of parts) {
        if (part.type === "error") end = { type: "RUN_ERROR", message: String(part.error) };
        eventsOf(part).forEach(send);
      }
      send(end);
      stream.close();
    },
  });
}

function eventsOf(part: TextStreamPart<ToolSet>): Event[] {
  switch (part.type) {
    case "text-delta":
      return [{ type: "TEXT_MESSAGE_CHUNK", messageId: `text_${part.id}`, role: "assistant", delta: part.text }];
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
