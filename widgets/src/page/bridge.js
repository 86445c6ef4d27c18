/* The view's side of MCP Apps: JSON-RPC with the host's frame over postMessage. */

import { english, t } from "../texts/language.js";
import { refusalWords } from "../texts/notes.js";

const PROTOCOL = "2026-01-26";
const ANSWER_WITHIN = 20_000;

const RAW = /error posting|https? ?\d{3}|fetch failed|econn|session|[{}]/i;
const SESSION = /session|HTTP 40[04]/i;

/**
 * Raised when a call fails; `message` is a sentence for the user. `stale`: the task has changed since. `away`: Duetime was
 * not reached. `later`: the answer, should it come after all.
 */
export class CallFailed extends Error {
  constructor(message, { stale = false, away = false, later = undefined } = {}) {
    super(message);
    Object.assign(this, { stale, away, later });
  }
}

/**
 * Connect to the host. `on` maps a host's notification ("tool-input", "tool-result", "tool-cancelled",
 * "host-context-changed") to what it does; `on.teardown` runs before the frame goes.
 */
export function connect(name, on) {
  const waiting = new Map();
  const bridge = { context: {}, capabilities: {}, ready: undefined, call, tellModel, notify, download, requestMode, openLink };
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
      const later = new Promise((came) => waiting.set(id, { resolve, reject, came }));
      const give = () => reject(new CallFailed(t("error.no_answer"), { away: true, later }));
      waiting.get(id).timer = setTimeout(give, ANSWER_WITHIN);
    });
  }

  function receive(message) {
    if (message.method === undefined) settle(message);
    else if (message.id === undefined) heard(message);
    else answer(message);
  }

  function settle({ id, result, error }) {
    const { resolve, reject, came, timer } = waiting.get(id) ?? {};
    if (resolve === undefined) return;
    waiting.delete(id);
    clearTimeout(timer);
    if (error) reject(Object.assign(new CallFailed(t("error.refused")), { raw: error.message ?? "" }));
    else resolve(result ?? {});
    if (!error) came(result ?? {});
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

  /**
   * Call a tool; gives its structured content, or raises `CallFailed` with the server's own sentence. A server that was
   * restarted knows the session no more: the host then begins another one, for which the call is made once again.
   */
  async function call(tool, args, again = true) {
    const asked = () => request("tools/call", { name: tool, arguments: args });
    try {
      return contentOf(await asked());
    } catch (error) {
      if (again && SESSION.test(error.raw ?? "")) return call(tool, args, false);
      if (error.raw !== undefined) Object.assign(error, { message: t("error.away"), away: true });
      if (error.later) error.later = error.later.then(contentOf);
      throw error;
    }
  }

  function contentOf(result) {
    if (!result.isError && result.structuredContent) return withWords(result);
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

  /** Have the host open an address of the web; one that cannot is not asked. */
  function openLink(url) {
    request("ui/open-link", { url }).catch(() => undefined);
  }

  /** Tell the model what the user did here; a host that does not take it is not asked. */
  function tellModel(text, structuredContent) {
    if (!bridge.capabilities.updateModelContext) return;
    request("ui/update-model-context", { content: [{ type: "text", text }], structuredContent }).catch(() => undefined);
  }
}

/** The structured content with what the server says for readers of other languages. */
export function withWords({ structuredContent, _meta: meta }) {
  return { ...structuredContent, words: meta?.["duetime/words"] };
}

/** What a failed tool result says, as an error. */
export function failure(result) {
  const [text, code] = [textOf(result) || t("error.unreadable"), result._meta?.["duetime/code"]];
  if (!code && RAW.test(text)) return Object.assign(new CallFailed(t("error.away"), { away: true }), { raw: text });
  return new CallFailed(refusalWords(code, result._meta?.["duetime/plain"] ?? text), { stale: code === "stale_revision" || /(^|\s)revision: /.test(text) });
}

export function textOf(result) {
  return (result.content ?? [])
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n");
}
