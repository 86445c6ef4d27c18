// Calls tools by the TypeScript SDK: a line of JSON {tool, arguments} each from stdin, the text of the answer as JSON.
// node client.mjs ADDRESS | node client.mjs PROGRAM ARGUMENT ...

import { createInterface } from "node:readline";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [first, ...rest] = process.argv.slice(2);
const transport = first.startsWith("http:")
  ? new StreamableHTTPClientTransport(new URL(first))
  : new StdioClientTransport({ command: first, args: rest, env: process.env });
const client = new Client({ name: "requests", version: "1" });
await client.connect(transport);
for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  const answer = await client.callTool({ name: call.tool, arguments: call.arguments });
  process.stdout.write(`${JSON.stringify({ isError: answer.isError ?? false, text: answer.content[0].text })}\n`);
}
await client.close();
