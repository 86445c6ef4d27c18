/* Two chats in a browser, of foreign make, each with a client of its own to a real server: the official AppBridge, and @mcp-ui/client. */
import { AppRenderer } from "@mcp-ui/client";
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";
import * as modern from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

const CONTEXT = { theme: "light", locale: "en-US", timeZone: "America/Denver", displayMode: "inline" };
const CAPABILITIES = { serverTools: {}, updateModelContext: { text: {} } };

/* Each chat with the client library that it is made for. */
const libraries = { official: modern, renderer: { Client, StreamableHTTPClientTransport } };

async function connected(url, library) {
  const client = new library.Client({ name: "chat", version: "1" });
  await client.connect(new library.StreamableHTTPClientTransport(new URL(url)));
  return client;
}

async function cardOf(client, tool) {
  const { tools } = await client.listTools();
  const uri = tools.find(({ name }) => name === tool)._meta.ui.resourceUri;
  return (await client.readResource({ uri })).contents[0].text;
}

const chats = {
  async official({ client, html, result, sandbox }) {
    const frame = Object.assign(document.createElement("iframe"), { width: 600, height: 1200 });
    document.getElementById("chat").replaceChildren(frame);
    const bridge = new AppBridge(client, { name: "official", version: "1" }, CAPABILITIES, { hostContext: CONTEXT });
    bridge.onupdatemodelcontext = async () => ({});
    bridge.addEventListener("sandboxready", () => bridge.sendSandboxResourceReady({ html }));
    bridge.addEventListener("initialized", () => bridge.sendToolResult(result));
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    frame.src = sandbox;
  },
  async renderer({ client, html, result, sandbox, tool, args }) {
    const props = { client, html, toolName: tool, toolInput: args, toolResult: result, hostContext: CONTEXT, sandbox: { url: new URL(sandbox) } };
    createRoot(document.getElementById("chat")).render(createElement(AppRenderer, props));
  },
};

window.open_card = async ({ chat, server, sandbox, tool, args }) => {
  const client = await connected(server, libraries[chat]);
  const result = await client.callTool({ name: tool, arguments: args });
  await chats[chat]({ client, html: await cardOf(client, tool), result, sandbox, tool, args });
  return result.structuredContent.id;
};
