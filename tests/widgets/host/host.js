/* A chat host for tests: the official AppBridge around one card in a frame with the strictest sandbox. */
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

let bridge;
let frame;
let gate = Promise.resolve();
let open = () => undefined;
let broken;

const seen = { greeted: false, goodbye: undefined, messages: [], sizes: [], files: [], modes: [], calls: [], contexts: [], links: [] };

window.addEventListener("message", ({ data }) => data?.method && seen.messages.push(data.method));

async function load({ html, context, capabilities, width }) {
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
  bridge.addEventListener("initialized", () => {
    seen.greeted = true;
    frame.style.visibility = "visible";
  });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
}

async function call({ name, arguments: args }) {
  seen.calls.push({ name, arguments: args });
  await gate;
  if (broken) throw new Error(broken);
  return window.serve(name, args);
}

window.host = {
  seen,
  denies: false,
  deny: () => void (window.host.denies = true),
  load,
  hold: () => void (gate = new Promise((resolve) => (open = resolve))),
  release: () => open(),
  break: (message) => void (broken = message),
  input: (args) => bridge.sendToolInput({ arguments: args }),
  result: (result) => bridge.sendToolResult(result),
  cancelled: (reason) => bridge.sendToolCancelled({ reason }),
  context: (context) => bridge.setHostContext(context),
  teardown: () => void bridge.teardownResource({}).then((answer) => (seen.goodbye = answer)),
  resize: (width) => (frame.style.width = `${width}px`),
};
