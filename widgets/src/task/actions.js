/* The buttons of a card: only those that its state allows, in one row that wraps. */

import { failedSteps, isChain } from "./chain.js";
import { h, icon } from "../page/dom.js";
import { moment } from "../texts/format.js";
import { listed, t } from "../texts/language.js";
import { ruleWords } from "../texts/rules.js";
import { FAILURES, hasEnded, isStored } from "../texts/words.js";

const SNOOZABLE = new Set(["succeeded", ...FAILURES]);
const NEAR = 3_600_000;
export const MOVABLE = new Set(["scheduled", "waiting", "ready", "retrying", "suspended"]);

/** The row of buttons; a host that cannot call tools gets words instead. */
export function actionsView(card) {
  const { task, env } = card;
  if (!isStored(task)) return "";
  if (env.bridge.capabilities.serverTools === undefined) {
    return h("p", { class: "quiet hint" }, t("actions.none"));
  }
  return h("div", { class: "bar", role: "group", "aria-label": t("actions.name") }, buttonsFor(card));
}

function buttonsFor(card) {
  const { task } = card;
  const [ended, movable] = [hasEnded(task), MOVABLE.has(task.series.state)];
  if (isChain(task)) return ended ? chainAgain(card) : [...chainAgain(card), ...(asksOnce(task) ? answerButtons(card) : []), opener(card, "change", "calendar", t("button.change")), cancelButton(card), pauseButton(card)];
  if (isAsked(task)) return [...answerButtons(card), opener(card, "change", "calendar", t("button.change")), opener(card, "more", "dots", t("button.more"))];
  return [
    task.unread?.length ? doneButton(card) : "",
    SNOOZABLE.has(task.state) || (MOVABLE.has(task.state) && isNear(card)) ? opener(card, "snooze", "moon", t("button.snooze")) : "",
    runsAgain(task) ? runAgainButton(card) : "",
    runsAgain(task) && task.last_run?.state === "failed" && task.last_run.attempts ? opener(card, "letter", "lines", t("field.payload")) : "",
    movable ? opener(card, "change", "calendar", ofSeries(card, "button.change")) : "",
    ended || task.cancel_requested ? "" : cancelButton(card),
    ended ? opener(card, "history", "history", t("button.history")) : opener(card, "more", "dots", t("button.more")),
  ];
}

/** Whether a task is due or has fired within an hour of now; what comes later is moved, not snoozed. */
function isNear(card) {
  return snoozedFrom(card) - card.env.clock.now() <= NEAR;
}

/**
 * The time that a snooze counts from: now for what has fired or is due, else when it is due. Of a recurring task it is the
 * outcome that fired, or comes again after an earlier snooze, or the occurrence to come, whichever is nearer; one that has
 * begun goes on at `when`.
 */
export function snoozedFrom({ task, env }) {
  const again = Date.parse(task.snoozed_until) || 0;
  const [now, due, fired] = [env.clock.now(), Date.parse(task.when.utc), Date.parse(task.last_run?.ended)];
  if (hasEnded(task)) return now;
  const since = now - fired;
  return task.repeat && !task.attempt && since <= NEAR && since <= due - now ? Math.max(now, again) : Math.max(now, due);
}

/** A button that acts; while something is pending it keeps the focus but does nothing. */
export function actButton(card, key, picture, text, run, style = "") {
  const busy = card.pending !== undefined;
  return h("button", {
    type: "button", class: `button ${style}`, "data-key": key, "aria-disabled": busy ? "true" : undefined,
    onclick: (event) => (busy ? undefined : run(event)),
  }, picture ? icon(picture) : "", text);
}

function opener(card, panel, picture, text) {
  const opened = card.panel === panel;
  const button = actButton(card, panel, picture, text, () => card.open(panel), opened ? "opened" : "");
  button.setAttribute("aria-expanded", String(opened));
  return button;
}

function doneButton(card) {
  const run = () => card.act("done", "act_on_task", { action: "done", revision: card.task.revision });
  return actButton(card, "done", "check", t("button.done"), run, "strong");
}

/** What has ended, or is of a series and failed last time; a reminder that came is snoozed instead. */
function runsAgain({ state, action, repeat, last_run: last }) {
  if (state === "succeeded") return action !== "reminder";
  return FAILURES.has(state) || (repeat !== undefined && !repeat.approval && state === "scheduled" && FAILURES.has(last?.state));
}

/** Whether a run at once would go around a question: one that is open, or the one before each run of a series. */
function asksFirst(task) {
  return isAsked(task) || task.repeat?.approval !== undefined;
}

/** Whether the user is asked if it may run. */
function isAsked({ waits }) {
  return waits?.some(({ kind }) => kind === "approval") ?? false;
}

/** Whether all steps of a chain that ask, ask the same; else each is answered on its own card. */
function asksOnce({ waits }) {
  return new Set(waits?.filter(({ kind }) => kind === "approval").map(({ title }) => title)).size === 1;
}

function answerButtons(card) {
  const answer = (action) => () => card.act(action, "act_on_task", { action, revision: card.task.revision });
  return [
    actButton(card, "approve", "check", t("button.approve"), answer("approve"), "strong"),
    actButton(card, "reject", "ban", t("button.reject"), answer("reject"), "danger"),
  ];
}

function runAgainButton(card, what = "") {
  const run = () => card.act("run_now", "act_on_task", { action: "run_now", revision: card.task.revision });
  return actButton(card, "run_again", "retry", what ? of(t("button.run_again"), what) : t("button.run_again"), run);
}

/** What failed by itself in a chain, by its names, to be run again: the rest goes on after it. */
function chainAgain(card) {
  const names = failedSteps(card.task.chain);
  if (names.length) return [runAgainButton(card, h("bdi", {}, listed(names, "unit")))];
  return runsAgain(card.task) && !hasEnded(card.task) ? [runAgainButton(card)] : [];
}

function cancelButton(card) {
  const run = () => card.act("cancel", "cancel_task", { revision: card.task.revision });
  const { task, env } = card;
  return actButton(card, "cancel", "ban", task.extra_run && task.repeat ? of(t("button.cancel"), ruleWords(task, env)) : t("button.cancel"), run, "danger");
}

/** When the series goes on, of which another run is shown. */
export function seriesTime({ task, env }) {
  return moment(Date.parse(task.series.when.utc), env.reader(), env.clock.now());
}

/** The words of a button; where it changes the next run of the series and another run is shown, with the time of that. */
function ofSeries(card, key) {
  return card.task.extra_run ? of(t(key), seriesTime(card)) : t(key);
}

function of(text, what) {
  return h("span", {}, text, ": ", what);
}

function pauseButton(card) {
  const { paused, revision } = card.task;
  const pause = (wish) => card.act(wish ? "pause" : "resume", "reschedule_task", { revision, pause: wish });
  return paused
    ? actButton(card, "pause", "play", t("button.resume"), () => pause(false))
    : actButton(card, "pause", "pause", t("button.pause"), () => pause(true));
}

/** Pause or resume, skip, run now: what is needed less often. */
export function moreButtons(card) {
  const { task, env } = card;
  const revision = task.revision;
  const act = (action) => card.act(action, "act_on_task", { action, revision });
  return [
    opener(card, "edit", "pencil", t("button.edit")),
    pauseButton(card),
    task.repeat ? actButton(card, "skip_next", "skip", ofSeries(card, "button.skip_next"), () => act("skip_next")) : "",
    task.paused || task.state === "running" || asksFirst(task) ? "" : actButton(card, "run_now", "play", t("button.run_now"), () => act("run_now")),
    env.bridge.capabilities.downloadFile ? actButton(card, "calendar", "calendar", t("button.calendar"), () => card.keep()) : "",
    opener(card, "history", "history", t("button.history")),
  ];
}
