/*
 * What both cards do around their content: greet the host, follow it, wake up, and go quietly. A card cannot subscribe to a
 * task: hosts forward no resources/subscribe, only that the list of resources changed. For the rest it asks.
 */

import { connect, failure, withWords } from "./bridge.js";
import { h, icon, redraw } from "./dom.js";
import { speak, t } from "../texts/language.js";
import { readerOf } from "../texts/format.js";
import { reportSize, serverClock, wear } from "./host.js";

/**
 * Start a card called `name`. `make(root, env)` gives its content: draw(), tick(), wake(), result(structured, raw),
 * failed(sentence), input(arguments), cancelled(reason).
 */
export async function start(name, make) {
  const status = h("p", { class: "sr", role: "status", "aria-live": "polite" });
  const root = h("main", { id: "card" });
  const foot = h("footer", {});
  document.body.replaceChildren(root, foot, status);
  let content;
  let stopSize = () => undefined;
  const bridge = connect(name, {
    "tool-input": ({ arguments: args = {} }) => content.input(args),
    "tool-result": (result) => resultCame(content, result),
    "tool-cancelled": ({ reason }) => content.failed(reason ? t("error.cancelled_because", { reason }) : t("error.cancelled")),
    "host-context-changed": () => follow(),
    "notifications/resources/list_changed": () => wake(),
    teardown: () => stop(),
  });
  const env = { bridge, clock: serverClock(), reader: () => readerOf(bridge.context), announce: (text) => (status.textContent = text), tell: otherCards((task) => content.heard(task)) };
  content = make(root, env);
  follow();
  const timer = setInterval(() => content.tick(), 1000);
  const wake = () => document.visibilityState === "visible" && content.wake();
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("pageshow", (event) => event.persisted && content.wake());
  await bridge.ready.then(() => greeted(), (error) => content.failed(t("error.no_host", { error: error.message })));

  function greeted() {
    follow();
    stopSize = reportSize(bridge.notify);
  }

  function follow() {
    wear(bridge.context, speak(bridge.context.locale ?? navigator.language));
    redraw(foot, () => [modeButton(bridge, follow)]);
    content.draw();
  }

  function stop() {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", wake);
    stopSize();
  }
}

/** Where the host offers the whole screen: the button that takes it, or gives it back. */
function modeButton(bridge, follow) {
  const { availableDisplayModes: modes = [], displayMode = "inline" } = bridge.context;
  if (!modes.includes("fullscreen")) return "";
  const [next, key, picture] = displayMode === "fullscreen" ? ["inline", "mode.leave", "shrink"] : ["fullscreen", "mode.enter", "grow"];
  const press = () => bridge.requestMode(next).then(follow, () => undefined);
  return h("button", { type: "button", class: "button", "data-key": "mode", onclick: press }, icon(picture), t(key));
}

function resultCame(content, result) {
  if (result.structuredContent && !result.isError) content.result(withWords(result));
  else content.failed(failure(result).message || t("error.nothing_to_show"));
}

/** Tell the other cards of this chat which task was changed here, where the sandbox lets them hear of it; they poll anyway. */
function otherCards(hear) {
  try {
    const channel = new BroadcastChannel("duetime");
    channel.onmessage = ({ data }) => hear(data);
    return ({ id, revision }) => channel.postMessage({ id, revision });
  } catch {
    return () => undefined;
  }
}
