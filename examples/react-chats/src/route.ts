/* Routes of your server: the model's turn, and the buttons of the cards. The key of Duetime stays here. */

import { createMCPClient, mcpAppClientCapabilities, splitMCPAppTools } from "@ai-sdk/mcp";
import { convertToModelMessages, isStepCount, streamText, type LanguageModel, type UIMessage } from "ai";
import type { ToolCall } from "../../react-card/src/actions";

/** The client says that it draws cards: then the buttons' tool is the app's alone, and it may approve. */
function connect(url: string, key: string) {
  const transport = { type: "http", url, headers: { Authorization: `Bearer ${key}` } } as const;
  return createMCPClient({ transport, capabilities: mcpAppClientCapabilities });
}

/** `POST /api/chat` */
export async function chat(request: Request, model: LanguageModel, url: string, key: string): Promise<Response> {
  const { messages } = (await request.json()) as { messages: UIMessage[] };
  const client = await connect(url, key);
  const { modelVisible } = splitMCPAppTools(await client.listTools());
  const turn = streamText({
    model,
    messages: await convertToModelMessages(messages),
    tools: client.toolsFromDefinitions(modelVisible),
    stopWhen: isStepCount(5),
    onEnd: () => client.close(),
  });
  return turn.toUIMessageStreamResponse();
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
