/* How a task card looks: from what the card knows to elements. Nothing here changes anything. */

import { deadlineFact, needsFact, tierView } from "./deadline.js";
import { fact, h, icon } from "../page/dom.js";
import { city, day, inOwnZone, leaf, moment, placed, relative, timeOfDay, wall } from "../texts/format.js";
import { inside, listed, parts, t } from "../texts/language.js";
import { actionsView, seriesTime } from "./actions.js";
import { chainFact } from "./chain.js";
import { noteWords } from "../texts/notes.js";
import { costFact, deliveryFact, failureNotice, logFact, progressFact, resultFact, unverifiedNotice } from "./outcome.js";
import { panelView } from "./panels.js";
import { ruleWords } from "../texts/rules.js";
import { undoView } from "./undo.js";
import { waitingFact } from "./waits.js";
import { FAILURES, hasEnded, lookOf, wordsOf } from "../texts/words.js";

/** The nodes of a card in whatever phase it is. */
export function taskView(card) {
  if (card.phase === "loading") return [loadingView(card)];
  if (card.phase === "failed") return [failedView(card)];
  const tone = wordsOf(card.look).tone;
  return [
    h("article", { class: `task tone-${tone}`, "aria-label": card.task.title },
      headView(card), noticeView(card), factsView(card), undoView(card), actionsView(card), panelView(card)),
  ];
}

function loadingView(card) {
  return h("div", { class: "task loading", role: "status" },
    h("div", { class: "head" },
      h("span", { class: "leaf bone" }),
      h("div", { class: "what" },
        h("p", { class: "quiet" }, card.title ? t("task.scheduling") : t("task.reading")),
        card.title ? h("h1", {}, card.title) : h("span", { class: "bone line" }),
        h("span", { class: "bone line short" }))));
}

function failedView(card) {
  return h("div", { class: "task failed tone-danger" },
    h("div", { class: "head" },
      h("span", { class: "leaf round" }, icon("alert")),
      h("div", { class: "what" },
        h("h1", {}, t("task.failed")),
        h("p", { class: "said", role: "alert" }, card.failure),
        card.id ? h("div", { class: "bar" }, h("button", { class: "button", "data-key": "again", onclick: () => card.read() }, icon("retry"), t("button.try_again"))) : "")));
}

function headView(card) {
  const { task, env } = card;
  const [reader, now, due] = [env.reader(), env.clock.now(), Date.parse(task.when.utc)];
  const at = placed(due, task.when.local, task.when.timezone, reader);
  return h("header", { class: "head" },
    leafView(at.ms, at.reader),
    h("div", { class: "what" },
      h("div", { class: "above" }, h("span", { class: "pills" }, stateView(card), tierView(task)), relativeView(card, due, now, reader)),
      h("h1", {}, task.title),
      task.message ? h("p", { class: "message" }, task.message) : "",
      task.effect ? h("p", { class: "quiet effect" }, t("task.reminds")) : "",
      h("p", { class: `when when-${task.state}` },
        h("time", { datetime: task.when.utc }, h("strong", {}, timeOfDay(at.ms, at.reader)), " ", h("span", {}, day(at.ms, at.reader, now))),
        ownZone(task, at))));
}

export function leafView(due, reader) {
  const { month, day: date } = leaf(due, reader);
  return h("span", { class: "leaf", "aria-hidden": "true" }, h("span", { class: "month" }, month), h("span", { class: "date" }, date));
}

function stateView(card) {
  if (card.pending) {
    return h("span", { class: "state tone-quiet", "data-state": "pending" }, h("span", { class: "spinner", "aria-hidden": "true" }), t(`doing.${card.pending}`));
  }
  const { word, picture, tone } = wordsOf(card.look);
  return h("span", { class: `state tone-${tone}`, "data-state": card.look }, icon(picture), word);
}

function relativeView(card, due, now, reader) {
  const ended = card.task.last_run?.ended;
  if (hasEnded(card.task) && !ended) return "";
  const at = hasEnded(card.task) ? Date.parse(ended) : due;
  return h("span", { class: "relative", "data-at": at }, relative(at, now, reader));
}

function ownZone({ when }, at) {
  if (wall(at.ms, at.reader.zone) === when.local.slice(0, 16)) return "";
  const there = inOwnZone(when.local, at.reader);
  return h("span", { class: "there" }, t("time.there", { time: moment(there.ms, there.reader, there.ms), city: city(when.timezone) }));
}

function noticeView(card) {
  const { task, error, changes } = card;
  return [
    error ? h("div", { class: "notice tone-danger", role: "alert" }, icon("alert"), h("div", {}, h("p", {}, error), againButton(card))) : "",
    changes.length ? changedView(changes) : "",
    failureNotice(task),
    unverifiedNotice(task),
    ...(task.warnings ?? []).map((warning) => h("div", { class: "notice tone-warning" }, icon("alert"), h("p", {}, noteWords(warning, task, card.env)))),
  ];
}

/** Try again, where that may help: Duetime was away, or its answer was. */
function againButton({ retry }) {
  return retry ? h("button", { type: "button", class: "button", "data-key": "again", onclick: retry }, icon("retry"), t("button.try_again")) : "";
}

function changedView(changes) {
  return h("div", { class: "notice tone-warning", role: "alert", "data-changes": "" }, icon("history"),
    h("div", {}, h("p", {}, t("changed.notice")),
      h("ul", {}, changes.map(({ name, was, is }) => h("li", {}, parts("changed.line", { field: t(name), was: h("del", {}, was), is: h("ins", {}, is) }))))));
}

function factsView(card) {
  const rows = [repeatFact(card), chainFact(card.task), deadlineFact(card), progressFact(card.task), targetFact(card), waitingFact(card), needsFact(card.task), lastFact(card), resultFact(card), costFact(card), addressFact(card.task), logFact(card), deliveryFact(card), ownerFact(card.task), labelsFact(card.task)];
  return h("dl", { class: "facts" }, rows);
}

function repeatFact(card) {
  const { task, env } = card;
  if (!task.repeat) return "";
  const now = env.clock.now();
  const more = [task.extra_run && t("row.next", { time: seriesTime(card) }), asksWords(task.repeat), movedWords(card), untilWords(card)].filter(Boolean);
  const upcoming = (task.repeat.next ?? []).map((text) => placed(Date.parse(text), text, task.when.timezone, env.reader()))
    .map(({ ms, reader }) => h("li", {}, moment(ms, reader, now)));
  return fact("repeat", t("repeats.name"),
    upcoming.length === 0 ? h("span", {}, ruleWords(task, env)) : h("details", { open: card.unfolded, ontoggle: (event) => (card.unfolded = event.target.open) },
      h("summary", { "data-key": "next" }, h("span", {}, ruleWords(task, env)), h("span", { class: "more" }, t("repeats.next", { count: upcoming.length }), icon("chevron"))),
      h("ol", {}, upcoming),
      (task.repeat.notes ?? []).map((note) => h("p", { class: "quiet" }, noteWords(note, task, env)))),
    more.map((words) => h("span", { class: "summary" }, words)));
}

/** That its user is asked before each run, and what; or which event each run waits for. */
function asksWords({ approval, wait_for: wait }) {
  return wait ? t("wait.event", { event: listed((wait.any ?? [wait]).map(({ event, match }) => event + matchWords(match)), "disjunction") })
    : approval?.question ? parts("repeats.asks_this", { question: h("bdi", {}, approval.question) }) : approval && t("repeats.asks");
}

function matchWords(match = {}) {
  const members = Object.entries(match).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return members.length ? ` (${members.join(", ")})` : "";
}

/** That the next occurrence is an exception of its series, and where it would be. */
function movedWords({ task, env }) {
  const from = task.repeat.moved_from;
  if (!from) return "";
  const { ms, reader } = placed(Date.parse(from), from, task.when.timezone, env.reader());
  return t("repeats.moved", { time: moment(ms, reader, env.clock.now()) });
}

function untilWords({ task, env }) {
  const { until, runs_left: left, max_runs: most } = task.repeat;
  const last = until ? placed(Date.parse(until), until, task.when.timezone, env.reader()) : undefined;
  const texts = [
    last ? t("repeats.until", { time: moment(last.ms, last.reader, env.clock.now()) }) : "",
    left === undefined ? "" : t("repeats.left", { count: left, left, most }),
  ];
  return listed(texts.filter(Boolean), "unit");
}

/** How the last run went; of one that just ended, only what the head does not say already. */
function lastFact({ task, env }) {
  const last = task.last_run;
  if (!last) return "";
  const { word, picture, tone } = wordsOf(last.state);
  const summary = last.summary && last.summary !== task.title ? h("span", { class: "summary" }, last.summary) : "";
  const ended = last.ended ? moment(Date.parse(last.ended), env.reader(), env.clock.now()) : "";
  if (last.state === task.state && FAILURES.has(last.state)) return "";
  if (last.state === task.state) return summary && fact(picture, t("last.outcome"), last.summary);
  return fact(picture, t("last.name"),
    h("span", { class: `tone-${tone} toned` }, t("last.time", { state: inside(word) })), " ", h("span", { class: "quiet" }, ended), summary);
}

/** To which host a webhook or a watch sends requests: the whole address may be long, and is nobody's business. */
function targetFact({ task: { target }, env }) {
  if (!target) return "";
  const host = h("bdi", {}, /^https?:\/\/([^/]*)/.exec(target.address)?.[1] ?? target.address);
  const until = target.until ? [" ", t("repeats.until", { time: moment(Date.parse(target.until), env.reader(), env.clock.now()) })] : "";
  return fact("flag", t("address.name"), target.every ? parts("address.looks", { host, every: target.every }) : parts("address.sends", { host }), until);
}

function addressFact({ fire_address: addressed }) {
  return addressed ? fact("play", t("address.name"), t("address.there")) : "";
}

/** Who asked for it, from where. */
function ownerFact({ owner, origin }) {
  const said = [
    owner && owner !== "local" ? parts("owner.by", { owner: h("bdi", {}, owner) }) : "",
    origin ? h("span", { class: "summary", "data-origin": "" }, parts("owner.from", { client: h("bdi", {}, origin.client) })) : "",
  ];
  return said.flat(2).some(Boolean) ? fact("user", t("owner.name"), said) : "";
}

/** Its labels, and the key of its run. */
function labelsFact({ labels = [], idempotency_key: key }) {
  const marks = labels.concat(key?.run ?? []);
  return marks.length ? fact("tag", t("field.labels"), marks.map((mark) => h("span", { class: "label" }, mark))) : "";
}

/** A look for a row of a list. */
export function rowLook(row, now) {
  return wordsOf(lookOf(row, Date.parse(row.when), now));
}
