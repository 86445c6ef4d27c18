/* A chat host for tests: the official AppBridge around one card in a frame with the strictest sandbox. */
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

let bridge;
let frame;
let gate = Promise.resolve();
let held;
let open = () => undefined;
let broken;
let running = Promise.resolve();
let stand = () => undefined;
let pings = 0;
let pointed = false;

const answering = new Set();
const awaited = new Map();
const pages = new Map(); // each card is handed over once

const nothing = () => ({ greeted: false, goodbye: undefined, messages: [], sizes: [], files: [], modes: [], calls: [], contexts: [], links: [] });
const seen = nothing();

window.addEventListener("message", ({ data, source }) => {
  if (!source || source !== frame?.contentWindow) return; // of a card that has left
  if (data?.method) seen.messages.push(data.method);
  awaited.get(data?.id)?.();
});
window.addEventListener("mouseover", () => (pointed = true), true);

/* An empty chat, as it was before the first test. A call that is under way is not answered any more.
   Returns what a page cannot take back itself: its time, whether it is on paper, and whether a pointer has come. */
async function clear() {
  await leave();
  document.getElementById("chat").replaceChildren();
  document.getElementById("chat").className = "";
  open();
  stand();
  answering.clear();
  awaited.clear();
  held = broken = undefined;
  gate = running = Promise.resolve();
  window.host.denies = false;
  Object.assign(seen, nothing());
  const left = [Date.now(), matchMedia("print").matches, pointed];
  pointed = false;
  return left;
}

async function leave() {
  const left = bridge;
  bridge = undefined;
  await left?.close(); // one that listens on takes all that later cards say
}

/* Puts a card into the chat and waits until it has greeted the host; false where its page has to be handed over. */
async function load({ page, html, context, capabilities, width, patience }) {
  if (html) pages.set(page, URL.createObjectURL(new Blob([html], { type: "text/html;charset=utf-8" })));
  if (!pages.has(page)) return false;
  await leave();
  Object.assign(seen, { greeted: false, sizes: [] }); // of the card before: what is sent before this one greets is lost
  frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.style.width = width ? `${width}px` : "100%";
  frame.style.visibility = "hidden";
  document.getElementById("chat").replaceChildren(frame);
  bridge = new AppBridge(null, { name: "test-host", version: "1" }, capabilities, { hostContext: context });
  bridge.oncalltool = call;
  bridge.onopenlink = async ({ url }) => (seen.links.push(url), {});
  bridge.onupdatemodelcontext = async (params) => (seen.contexts.push(params), {});
  bridge.ondownloadfile = async ({ contents }) => (seen.files.push(contents[0].resource), { isError: window.host.denies });
  bridge.onrequestdisplaymode = async ({ mode }) => (seen.modes.push(mode), { mode });
  bridge.addEventListener("sizechange", (size) => {
    seen.sizes.push(size);
    frame.style.height = `${size.height}px`;
  });
  const greeted = new Promise((resolve, reject) => {
    const late = new AbortController();
    bridge.addEventListener("initialized", () => (late.abort(), resolve()));
    const refuse = () => reject(new Error("The card has not greeted its host."));
    scheduler.postTask(refuse, { delay: patience, signal: late.signal }).catch(() => undefined); // by no clock of a test
  });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = pages.get(page);
  await greeted;
  seen.greeted = true;
  frame.style.visibility = "visible";
  return settled();
}

async function call({ name, arguments: args }) {
  const asked = { name, arguments: args, answered: false };
  const by = bridge;
  seen.calls.push(asked);
  if (!held || held === name) await gate;
  await running;
  if (bridge !== by) throw new Error("its card is gone");
  const answer = answerOf(name, args);
  answering.add(answer);
  return answer.finally(() => (asked.answered = answering.delete(answer)));
}

async function answerOf(name, args) {
  if (broken) throw new Error(broken);
  return window.serve(name, args);
}

/* Messages keep their order: with the answer to this has come what the card said before, and it has taken what it was told. */
function ping() {
  const id = `ping ${++pings}`;
  const answered = new Promise((resolve) => awaited.set(id, resolve));
  frame.contentWindow.postMessage({ jsonrpc: "2.0", id, method: "ping" }, "*");
  return answered;
}

/* Nothing is under way between chat and card any more, but for what is held back. */
async function settled() {
  stand();
  if (!seen.greeted) return true;
  for (let quiet = 0; quiet < 2; quiet += 1) {
    const asked = seen.calls.length;
    await ping();
    if (answering.size === 0 && seen.calls.length === asked) continue;
    await Promise.allSettled(answering);
    quiet = -1;
  }
  return true;
}

window.host = {
  seen,
  denies: false,
  deny: () => void (window.host.denies = true),
  clear,
  load,
  settled,
  run: () => void (running = new Promise((resolve) => (stand = resolve))),
  hold: (tool) => void (held = tool, gate = new Promise((resolve) => (open = resolve))),
  release: () => open(),
  break: (message) => void (broken = message),
  input: (args) => bridge.sendToolInput({ arguments: args }),
  result: (result) => bridge.sendToolResult(result),
  listChanged: () => bridge.sendResourceListChanged(),
  cancelled: (reason) => bridge.sendToolCancelled({ reason }),
  context: (context) => bridge.setHostContext(context),
  teardown: () => void bridge.teardownResource({}).then((answer) => (seen.goodbye = answer)),
  resize: (width) => (frame.style.width = `${width}px`),
};
