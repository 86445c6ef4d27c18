/* Routes of your server: the model's turn, for either chat, and the buttons of the cards. The key of Duetime stays here. */

import { createMCPClient, mcpAppClientCapabilities, splitMCPAppTools } from "@ai-sdk/mcp";
import type { RunAgentInput } from "@ag-ui/client";
import { convertToModelMessages, isStepCount, streamText, type LanguageModel, type ModelMessage, type UIMessage } from "ai";
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
  return (await turn(model, await convertToModelMessages(messages), url, key)).toUIMessageStreamResponse();
}

/** `POST /api/agent`: the same turn as an agent of AG-UI, which CopilotKit runs. */
export async function agent(request: Request, model: LanguageModel, url: string, key: string): Promise<Response> {
  const input = (await request.json()) as RunAgentInput;
  const { stream } = await turn(model, said(input.messages), url, key);
  return new Response(agentEvents(input, stream), { headers: { "Content-Type": "text/event-stream" } });
}

async function turn(model: LanguageModel, messages: ModelMessage[], url: string, key: string) {
  const client = await connect(url, key);
  const { modelVisible } = splitMCPAppTools(await client.listTools());
  return streamText({
    model,
    messages,
    tools: client.toolsFromDefinitions(modelVisible),
    stopWhen: isStepCount(5),
    onEnd: () => client.close(),
  });
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
