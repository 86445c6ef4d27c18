/* What came of a task: why it failed, what it gave with the links in it, how far it is, and where it was delivered. */

import { bar, fact, h, icon } from "../page/dom.js";
import { moment, timeOfDay } from "../texts/format.js";
import { t } from "../texts/language.js";
import { FAILURES } from "../texts/words.js";

const MAX_LINKS = 5;
const MAX_ENTRIES = 6;
const MAX_VALUE = 120;
const ADDRESS = /https?:\/\/[^\s"'<>\\)\]}]+/g;
const OWN_CHANNEL = "inbox";
const WATCH = "watch";
const MAX_LOG_LINES = 3;
const LOUD = { warning: "tone-warning", error: "tone-danger", critical: "tone-danger" };

/** Why a task that is over has failed, in its own look; its reason without the name of an exception. A chain has its steps. */
export function failureNotice({ state, last_run: last }) {
  if (!FAILURES.has(state) || !last) return "";
  const reason = (last.summary ?? "").replace(/^[A-Z]\w*(Error|Exception|Timeout): /, "");
  if (state === "failed" && !last.attempts && !reason) return "";
  return h("div", { class: "notice tone-danger", "data-failure": "" }, icon("cross"), h("div", {},
    h("p", {}, state === "failed" && !last.attempts ? t("state.failed") : t(`failure.${state}`, { count: last.attempts })),
    reason && h("p", { class: "why" }, h("bdi", {}, reason))));
}

/** That a run is done and its result is not what was expected, and why. */
export function unverifiedNotice({ last_run: last }) {
  if (!last?.unverified) return "";
  return h("div", { class: "notice tone-warning", "data-unverified": "" }, icon("alert"), h("div", {},
    h("p", {}, t("unverified.notice")), h("p", { class: "why" }, h("bdi", {}, last.unverified))));
}

/** What the latest attempt gave: its values as they are, and the addresses in them to be opened by the host. */
export function resultFact({ task, env }) {
  const { result, last_run: last } = task;
  const links = addressesIn(`${JSON.stringify(result ?? "")} ${last?.summary ?? ""}`);
  const lines = linesOf(result);
  if (lines.length + links.length === 0) return "";
  return fact("stack", t("result.name"),
    lines.length ? h("ul", { class: "reasons" }, lines.map((line) => h("li", {}, h("bdi", {}, line)))) : "",
    links.map((url) => linkView(url, env.bridge)));
}

function linesOf(result) {
  if (result === undefined || result === null) return [];
  if (typeof result !== "object") return [cutTo(String(result))];
  const flat = Object.entries(result).filter(([, value]) => value !== null && typeof value !== "object" && value !== "");
  return flat.slice(0, MAX_ENTRIES).map(([name, value]) => cutTo(Array.isArray(result) ? String(value) : `${name}: ${value}`));
}

function cutTo(text) {
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE - 1)}…` : text;
}

function addressesIn(text) {
  return [...new Set(text.match(ADDRESS) ?? [])].filter(isOfTheWeb).slice(0, MAX_LINKS);
}

function isOfTheWeb(url) {
  try {
    const { protocol, username, password } = new URL(url);
    return /^https?:$/.test(protocol) && !username && !password;
  } catch {
    return false;
  }
}

/** An address as a button, since a card itself goes nowhere; words where the host opens none. */
function linkView(url, bridge) {
  const shown = h("bdi", {}, cutTo(url.replace(/^https?:\/\//, "")));
  if (bridge.capabilities.openLinks === undefined) return h("span", { class: "summary" }, shown);
  return h("button", { type: "button", class: "link", "data-key": `link-${url}`, "aria-label": t("result.open", { address: url }), onclick: () => bridge.openLink(url) }, shown);
}

/** How far a run is that says so, with a bar where it knows the part; of a watch, what it looks at and how often. */
export function progressFact({ action, progress }) {
  if (!progress || action === WATCH) return ""; // of a watch, the row on its target says all
  const { part, unknown, text } = progress;
  const known = !unknown && Number.isFinite(part);
  return fact("hourglass", t("progress.name"), known ? t("progress.part", { percent: Math.round(part * 100) }) : "",
    text ? h("span", { class: "summary" }, h("bdi", {}, text)) : "", known ? h("span", { class: "laxity tone-info" }, bar(part, { start: true })) : "");
}

/** What the attempts of the run cost, as the reader writes money; small amounts keep their digits. */
export function costFact({ task, env }) {
  const [, amount, currency] = /^([\d.]+) ([A-Z]{3})$/.exec(task.cost ?? "") ?? [];
  if (!amount) return "";
  const money = new Intl.NumberFormat(env.reader().locale, { style: "currency", currency, maximumFractionDigits: 6 });
  return fact("tag", t("cost.name"), t("cost.run", { cost: money.format(Number(amount)) }));
}

/** The last lines that its handler logged, newest last. */
export function logFact({ task, env }) {
  const lines = (task.log?.lines ?? []).slice(-MAX_LOG_LINES);
  return lines.length === 0 ? "" : fact("lines", t("log.name"), logLines(lines, env));
}

/** Lines of a log, each with its time, and its level where that says more than the line. */
export function logLines(lines, env) {
  return h("ol", { class: "log" }, lines.map(({ at, level, text }) => h("li", { class: LOUD[level] ?? "" },
    h("time", { class: "quiet", datetime: at }, timeOfDay(Date.parse(at), env.reader())), " ",
    level ? h("span", { class: "toned" }, `${level} `) : "", h("bdi", {}, text))));
}

/** A channel as people know it: the way back to a conversation is named by its client. */
function nameOf(channel) {
  return channel.replace(/^origin:/, "");
}

/** Where an outcome goes besides to where every one goes. */
export function deliveryFact({ task: { delivery }, env }) {
  const channels = (delivery?.channel ?? "").split(", ").filter((name) => name && name !== OWN_CHANNEL);
  if (channels.length === 0) return "";
  return fact("inbox", t("delivery.name"),
    h("span", { class: delivery.state === "failed" ? "toned tone-danger" : "" }, t(`delivery.${delivery.state}`, { channel: channels.map(nameOf).join(", ") })),
    delivery.error ? h("span", { class: "summary" }, delivery.error) : "",
    delivery.held_until ? h("span", { class: "summary" }, heldWords(delivery.held_until, env)) : "");
}

/** Until when quiet hours hold a delivery. */
export function heldWords(until, env) {
  return t("delivery.held", { time: moment(Date.parse(until), env.reader(), env.clock.now()) });
}
