/* Routes of your server: the model's turn, for either chat, and the buttons of the cards. The key of Duetime stays here. */

import { createMCPClient, mcpAppClientCapabilities, splitMCPAppTools } from "@ai-sdk/mcp";
import type { RunAgentInput } from "@ag-ui/client";
import { consumeStream, convertToModelMessages, isStepCount, streamText, type LanguageModel, type ModelMessage, type UIMessage } from "ai";
import { agentEvents } from "./agentEvents";
import type { ToolCall } from "../../react-card/src/actions";

/** The client says that it draws cards: then the buttons' tool is the app's alone, and it may approve. */
function connect(url: string, key: string) {
  const transport = { type: "http", url, headers: { Authorization: `Bearer ${key}` } } as const;
  return createMCPClient({ transport, capabilities: mcpAppClientCapabilities });
}

/** `POST /api/chat` */
export async function chat(request: Request, model: LanguageModel, url: string, key: string): Promise<Response> {
  const { messages } = (await request.json()) as { messages: UIMessage[] };
  const said = await convertToModelMessages(messages);
  return (await turn(model, said, url, key, request.signal)).toUIMessageStreamResponse({ consumeSseStream: consumeStream });
}

/** `POST /api/agent`: the same turn as an agent of AG-UI, which CopilotKit runs. */
export async function agent(request: Request, model: LanguageModel, url: string, key: string): Promise<Response> {
  const input = (await request.json()) as RunAgentInput;
  const left = new AbortController();
  const { stream } = await turn(model, said(input.messages), url, key, AbortSignal.any([request.signal, left.signal]));
  return new Response(agentEvents(input, stream, () => left.abort()), { headers: { "Content-Type": "text/event-stream" } });
}

/** However the turn ends, its connection is closed. The reason of a failure stays in the log of your server. */
async function turn(model: LanguageModel, messages: ModelMessage[], url: string, key: string, abortSignal: AbortSignal) {
  const client = await connect(url, key);
  const close = () => client.close();
  try {
    const { modelVisible } = splitMCPAppTools(await client.listTools());
    return streamText({
      model,
      messages,
      tools: client.toolsFromDefinitions(modelVisible),
      stopWhen: isStepCount(5),
      abortSignal,
      onEnd: close,
      onAbort: close,
      onError: ({ error }) => {
        console.error(error);
        return close();
      },
    });
  } catch (error) {
    await close();
    throw error;
  }
}

/** What was said until now; the tools' calls and results of earlier turns are left out. */
function said(messages: RunAgentInput["messages"]): ModelMessage[] {
  return messages.flatMap(({ role, content }) =>
    (role === "user" || role === "assistant") && typeof content === "string" && content ? [{ role, content }] : [],
  );
}

/** `POST /api/duetime`: what `act` of the cards sends. */
export async function press(request: Request, url: string, key: string): Promise<Response> {
  const call = (await request.json()) as ToolCall;
  const client = await connect(url, key);
  try {
    return Response.json(await client.callTool({ name: call.name, arguments: call.arguments }));
  } finally {
    await client.close();
  }
}
