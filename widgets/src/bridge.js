/* The view's side of MCP Apps: JSON-RPC with the host's frame over postMessage. */

import { english, t } from "./language.js";

const PROTOCOL = "2026-01-26";
const ANSWER_WITHIN = 20_000;

/** Raised when a call fails; `message` is a sentence for the user, `stale` says that the task changed meanwhile. */
export class CallFailed extends Error {
  constructor(message, { stale = false } = {}) {
    super(message);
    this.stale = stale;
  }
}

/**
 * Connect to the host. `on` maps a host's notification ("tool-input", "tool-result", "tool-cancelled",
 * "host-context-changed") to what it does; `on.teardown` runs before the frame goes.
 */
export function connect(name, on) {
  const waiting = new Map();
  const bridge = { context: {}, capabilities: {}, ready: undefined, call, tellModel, notify, download, requestMode };
  let last = 0;

  window.addEventListener("message", (event) => {
    if (event.source === window.parent && event.data?.jsonrpc === "2.0") receive(event.data);
  });
  bridge.ready = start();
  return bridge;

  async function start() {
    const answer = await request("ui/initialize", {
      appInfo: { name, version: "1" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: PROTOCOL,
    });
    bridge.context = answer.hostContext ?? {};
    bridge.capabilities = answer.hostCapabilities ?? {};
    notify("ui/notifications/initialized", {});
    return bridge;
  }

  function send(message) {
    window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }

  function notify(method, params) {
    send({ method, params });
  }

  function request(method, params) {
    const id = ++last;
    send({ id, method, params });
    return new Promise((resolve, reject) => {
      const late = () => settle({ id, error: { message: t("error.no_answer") } });
      waiting.set(id, { resolve, reject, timer: setTimeout(late, ANSWER_WITHIN) });
    });
  }

  function receive(message) {
    if (message.method === undefined) settle(message);
    else if (message.id === undefined) heard(message);
    else answer(message);
  }

  function settle({ id, result, error }) {
    const { resolve, reject, timer } = waiting.get(id) ?? {};
    if (resolve === undefined) return;
    waiting.delete(id);
    clearTimeout(timer);
    if (error) reject(new CallFailed(error.message || t("error.refused")));
    else resolve(result ?? {});
  }

  function heard({ method, params = {} }) {
    const event = method.replace("ui/notifications/", "");
    if (event === "host-context-changed") bridge.context = { ...bridge.context, ...params };
    on[event]?.(params);
  }

  function answer({ id, method }) {
    if (method === "ui/resource-teardown") {
      on.teardown?.();
      send({ id, result: {} });
    } else if (method === "ping") send({ id, result: {} });
    else send({ id, error: { code: -32601, message: english("model.unknown_method", { method }) } });
  }

  /** Call a tool; gives its structured content, or raises `CallFailed` with the server's own sentence. */
  async function call(tool, args) {
    const result = await request("tools/call", { name: tool, arguments: args });
    if (!result.isError && result.structuredContent) return result.structuredContent;
    throw failure(result);
  }

  /** Offer a file to the user through the host; raises `CallFailed` when that comes to nothing. */
  async function download(name, mimeType, text) {
    const resource = { uri: `file:///${name}`, mimeType, text };
    const answer = await request("ui/download-file", { contents: [{ type: "resource", resource }] });
    if (answer.isError) throw new CallFailed(t("error.no_file"));
  }

  /** Ask the host for another display mode; it may stay with the one that it has. */
  async function requestMode(mode) {
    const { mode: displayMode = mode } = await request("ui/request-display-mode", { mode });
    bridge.context = { ...bridge.context, displayMode };
  }

  /** Tell the model what the user did here; a host that does not take it is not asked. */
  function tellModel(text, structuredContent) {
    if (!bridge.capabilities.updateModelContext) return;
    request("ui/update-model-context", { content: [{ type: "text", text }], structuredContent }).catch(() => undefined);
  }
}

/** What a failed tool result says, as an error. */
export function failure(result) {
  const text = textOf(result) || t("error.unreadable");
  return new CallFailed(text, { stale: result._meta?.["duetime/code"] === "stale_revision" || /(^|\s)revision: /.test(text) });
}

export function textOf(result) {
  return (result.content ?? [])
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n");
}
