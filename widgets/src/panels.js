/* What opens under the buttons, one at a time: snooze, change the time, more, history. */

import { h } from "./dom.js";
import { city, moment, wall } from "./format.js";
import { actButton, moreButtons } from "./actions.js";
import { spoken, wordsOf } from "./words.js";

const PANELS = { snooze: snoozePanel, change: changePanel, more: morePanel, history: historyPanel };

/* No <form> here: a host may forbid forms in its sandbox, and then nothing would be submitted. */

/** The panel that is open, or nothing. */
export function panelView(card) {
  const panel = PANELS[card.panel];
  return panel ? h("section", { class: `panel panel-${card.panel}`, "aria-label": spoken(card.panel) }, panel(card)) : "";
}

function snoozePanel(card) {
  const choice = (key, text, time) => {
    const args = { action: "snooze", revision: card.task.revision, ...time };
    return actButton(card, key, "", text, () => card.act("snooze", "act_on_task", args));
  };
  return h("div", { class: "bar", role: "group", "aria-label": "Snooze for" },
    choice("snooze-10", "10 min", { minutes: 10 }),
    choice("snooze-60", "1 h", { minutes: 60 }),
    choice("snooze-tomorrow", "Tomorrow", { until: "tomorrow" }));
}

function changePanel(card) {
  const { task, env } = card;
  const zone = task.when.timezone;
  const input = h("input", {
    type: "datetime-local", id: `when-${task.id}`, "data-key": "when", required: true,
    value: card.typed ?? task.when.local.slice(0, 16), min: wall(env.clock.now(), zone), "aria-describedby": `zone-${task.id}`,
  });
  const save = () => {
    if (input.reportValidity()) card.act("change", "reschedule_task", { revision: task.revision, when: input.value, timezone: zone });
  };
  input.addEventListener("input", () => (card.typed = input.value));
  input.addEventListener("keydown", (event) => event.key === "Enter" && save());
  return h("div", { class: "change" },
    h("label", { for: input.id }, "New time ", h("span", { class: "quiet", id: `zone-${task.id}` }, `in ${city(zone)}`)),
    h("div", { class: "bar" }, input,
      actButton(card, "save", "check", "Save", save, "strong"),
      actButton(card, "keep", "undo", "Keep", () => card.open("change"))));
}

function morePanel(card) {
  return h("div", { class: "bar", role: "group", "aria-label": "More actions" }, moreButtons(card));
}

function historyPanel(card) {
  if (!card.history) return h("p", { class: "quiet", role: "status" }, "Reading the history…");
  const entries = [...card.history.attempts.map(attemptEntry), ...card.history.events.map(eventEntry)];
  if (entries.length === 0) return h("p", { class: "quiet" }, "Nothing has happened yet.");
  const ordered = entries.sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
  return [
    h("ol", { class: "history", tabindex: 0, "data-key": "entries", "aria-label": "History, newest first" }, ordered.map((entry) => entryView(entry, card.env))),
    card.history.older ? h("p", { class: "quiet hint" }, "There is more before this: ask in words for the rest.") : "",
  ];
}

function attemptEntry({ run, number, started, ended, outcome, reason }) {
  const which = run > 1 ? `Run ${run}, attempt ${number}` : `Attempt ${number}`;
  const how = outcome ? spoken(outcome).toLowerCase() : "running";
  return { at: ended ?? started, look: ATTEMPTS[outcome] ?? "running", text: `${which}: ${how}`, reason };
}

const ATTEMPTS = { done: "succeeded", failed: "failed", crashed: "failed", retry: "retrying", wait: "suspended", yielded: "suspended", cancelled: "cancelled" };

function eventEntry({ at, kind, actor, reason, to, changes = {} }) {
  return { at, look: to ?? "scheduled", text: spoken(kind), by: actor, reason, changes: Object.entries(changes) };
}

function entryView({ at, look, text, by, reason, changes = [] }, env) {
  return h("li", { class: `tone-${wordsOf(look).tone}` },
    h("p", {}, text, by ? h("span", { class: "quiet" }, " by ", h("bdi", {}, by)) : ""),
    h("time", { class: "quiet", datetime: at }, moment(Date.parse(at), env.reader(), env.clock.now())),
    reason ? h("p", { class: "summary" }, reason) : "",
    changes.map(([name, values]) => h("p", { class: "summary" }, `${spoken(name)}: `, changeView(values))));
}

/** What a thing was and what it is; something that was not there, or is no more, is a dash. */
function changeView(values) {
  const [was, is] = values.length > 1 ? values : ["", ...values];
  return [h("del", {}, was || "–"), " → ", h("ins", {}, is || "–")];
}
