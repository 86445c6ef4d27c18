/* What opens under the buttons, one at a time: snooze, change the time, edit, more, history, the payload of what failed. */

import { find, h } from "../page/dom.js";
import { city, moment, timeOfDay, wall } from "../texts/format.js";
import { isNamed, named, parts, t } from "../texts/language.js";
import { actButton, moreButtons, snoozedFrom } from "./actions.js";
import { editPanel } from "./edit.js";
import { letterPanel } from "./letter.js";
import { logLines } from "./outcome.js";
import { previewView } from "./preview.js";
import { wordsOf } from "../texts/words.js";

const PANELS = { snooze: snoozePanel, change: changePanel, edit: editPanel, more: morePanel, history: historyPanel, letter: letterPanel };

/* No <form> here: a host may forbid forms in its sandbox, and then nothing would be submitted. */

/** The panel that is open, or nothing. */
export function panelView(card) {
  const panel = PANELS[card.panel];
  return panel ? h("section", { class: `panel panel-${card.panel}`, "aria-label": t(card.panel === "letter" ? "field.payload" : `button.${card.panel}`) }, panel(card)) : "";
}

/** The choices of a snooze, each with the time that it results in. */
function snoozePanel(card) {
  const from = snoozedFrom(card);
  const choice = (key, text, time) => {
    const args = { action: "snooze", revision: card.task.revision, ...time };
    const until = time.minutes ? timeOfDay(from + time.minutes * 60_000, card.env.reader()) : "";
    return actButton(card, key, "", [text, until ? h("span", { class: "quiet" }, ` ${until}`) : ""], () => card.act("snooze", "act_on_task", args));
  };
  return h("div", { class: "bar", role: "group", "aria-label": t("button.snooze") },
    choice("snooze-10", t("snooze.minutes", { minutes: 10 }), { minutes: 10 }),
    choice("snooze-60", t("snooze.hours", { hours: 1 }), { minutes: 60 }),
    choice("snooze-tomorrow", t("snooze.tomorrow"), { until: "tomorrow" }));
}

/** A new time; of a recurring task for this occurrence or for all that follow, with the next five before it is done. */
function changePanel(card) {
  const { task, env } = card;
  const zone = task.when.timezone;
  const typed = card.typed ?? task.series.when.local.slice(0, 16);
  const args = () => ({ revision: card.task.revision, when: card.typed ?? typed, timezone: zone, ...(card.following ? { all_following: true } : {}) });
  const saved = (event) => {
    const input = find(event.target.closest(".change"), "when");
    if (input.reportValidity()) card.act("change", "reschedule_task", args());
  };
  return h("div", { class: "change" },
    h("label", { for: `when-${task.id}` }, parts("change.label", { zone: h("span", { class: "quiet", id: `zone-${task.id}` }, t("change.zone", { city: city(zone) })) })),
    h("div", { class: "bar" },
      h("input", {
        type: "datetime-local", id: `when-${task.id}`, "data-key": "when", required: true, value: typed,
        min: wall(env.clock.now(), zone), "aria-describedby": `zone-${task.id}`,
        oninput: (event) => card.type(event.target.value, args), onkeydown: (event) => event.key === "Enter" && saved(event),
      }),
      actButton(card, "save", "check", t("button.save"), saved, "strong"),
      actButton(card, "keep", "undo", t("button.keep"), () => card.open("change"))),
    task.repeat ? scopeView(card, args) : "");
}

function scopeView(card, args) {
  const choice = (following, text) => h("label", { class: "choice" },
    h("input", {
      type: "radio", name: `scope-${card.task.id}`, "data-key": following ? "following" : "this-one", checked: Boolean(card.following) === following,
      onchange: () => card.scope(following, args),
    }), text);
  return h("fieldset", { class: "scope" }, h("legend", { class: "sr" }, t("change.scope")),
    choice(false, t("change.this")), choice(true, t("change.following")), previewView(card));
}

function morePanel(card) {
  return h("div", { class: "bar", role: "group", "aria-label": t("actions.more") }, moreButtons(card));
}

function historyPanel(card) {
  if (!card.history) return h("p", { class: "quiet", role: "status" }, t("history.reading"));
  const entries = [...card.history.attempts.map(attemptEntry), ...card.history.events.map(eventEntry)];
  if (entries.length === 0 && !card.history.log) return h("p", { class: "quiet" }, t("history.empty"));
  const ordered = entries.sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
  return [
    h("ol", { class: "history", tabindex: 0, "data-key": "entries", "aria-label": t("history.name") }, ordered.map((entry) => entryView(entry, card.env))),
    card.history.older ? h("p", { class: "quiet hint" }, t("history.older")) : "",
    logView(card),
  ];
}

/** What the handler logged last: more of it than the card shows. */
function logView({ history, env }) {
  if (!history.log) return "";
  return [
    h("h2", { class: "over" }, t("log.name")),
    h("div", { class: "scrolled", tabindex: 0, role: "region", "data-key": "log", "aria-label": t("log.name") }, logLines(history.log.lines, env)),
    history.log.older ? h("p", { class: "quiet hint" }, t("log.older")) : "",
  ];
}

function attemptEntry({ step, run, number, started, ended, outcome, reason }) {
  const values = { run, number, outcome: named("outcome", outcome ?? "running") };
  const text = run > 1 ? t("attempt.run", values) : t("attempt.first", values);
  return { at: ended ?? started, look: ATTEMPTS[outcome] ?? "running", text, step, reason };
}

const ATTEMPTS = { done: "succeeded", failed: "failed", crashed: "failed", retry: "retrying", wait: "suspended", yielded: "suspended", cancelled: "cancelled" };

function eventEntry({ at, step, kind, actor, reason, to, changes = {} }) {
  return { at, look: to ?? "scheduled", text: isNamed("event", kind) ? named("event", kind) : named("state", kind), step, by: actor, reason, changes: Object.entries(changes) };
}

function entryView({ at, look, text, step, by, reason, changes = [] }, env) {
  return h("li", { class: `tone-${wordsOf(look).tone}` },
    h("p", {}, by && by !== "local" ? parts("history.by", { event: text, actor: h("bdi", { class: "quiet" }, by) }) : text),
    step ? h("p", { class: "summary" }, h("bdi", {}, step)) : "",
    h("time", { class: "quiet", datetime: at }, moment(Date.parse(at), env.reader(), env.clock.now())),
    reason ? h("p", { class: "summary" }, reason) : "",
    changes.map(([name, values]) => h("p", { class: "summary" }, parts("history.change", { field: named("field", name), ...changeView(values) }))));
}

/** What a thing was and what it is; something that was not there, or is no more, is a dash. */
function changeView(values) {
  const [was, is] = values.length > 1 ? values : ["", ...values];
  return { was: h("del", {}, was || "–"), is: h("ins", {}, is || "–") };
}
