/* The agenda: which tasks stand under which heading, and how a row looks. */

import { tierView } from "../task/deadline.js";
import { h, icon } from "../page/dom.js";
import { day, dayNumber, moment, relative, timeOfDay } from "../texts/format.js";
import { inside, t } from "../texts/language.js";
import { failureView, lastFailureView } from "./failures.js";
import { heldWords } from "../task/outcome.js";
import { lineOf } from "../task/waits.js";
import { FAILURES, hasEnded, lookOf, wordsOf } from "../texts/words.js";

const SECTIONS = ["overdue", "today", "week", "later", "ended"];

/** The rows by heading, in the order of the agenda; a heading without rows is left out. */
export function agenda(rows, now, zone) {
  const found = new Map(SECTIONS.map((section) => [section, []]));
  for (const row of rows) found.get(sectionOf(row, now, zone)).push(row);
  return [...found].filter(([, under]) => under.length > 0).map(([section, under]) => [t(`section.${section}`), under]);
}

function sectionOf(row, now, zone) {
  const due = Date.parse(row.when);
  if (hasEnded(row)) return "ended";
  if (lookOf(row, due, now) === "overdue") return "overdue";
  const away = dayNumber(due, zone) - dayNumber(now, zone);
  if (away <= 0) return "today";
  return away < 7 ? "week" : "later";
}

/** One line: time, title, state; it opens the whole task under itself, where there is a `toggle`. In a list of failures, time and state of its last run. */
export function rowView(row, env, opened, toggle, failure = false, checked = undefined) {
  const [reader, now, due] = [env.reader(), env.clock.now(), Date.parse(row.when)];
  const { word, picture, tone } = wordsOf(failure ? row.last_run.state : lookOf(row, due, now));
  const time = failure && row.last_run.ended ? Date.parse(row.last_run.ended) : due;
  const open = toggle ? { type: "button", ...(checked === undefined ? { "aria-expanded": String(opened) } : { role: "checkbox", "aria-checked": String(checked) }), onclick: toggle } : {};
  return h(toggle ? "button" : "div", { class: `row tone-${tone}`, "data-key": `row-${keyOf(row)}`, ...open },
    h("span", { class: "mark" }, icon(picture), h("span", { class: "sr" }, t("row.state", { state: word }))),
    h("span", { class: "name" }, h("bdi", {}, row.title), row.repeat ? h("span", { class: "repeats" }, icon("repeat"), h("span", { class: "sr" }, t("row.repeats"))) : "",
      failure ? failureView(row, due, now, reader) : [urgencyView(row, now, reader), heldView(row, env), lastFailureView(row)]),
    h("span", { class: "due" }, dueText(time, now, reader)),
    h("span", { class: "word" }, failure || (row.state === "scheduled" && !row.paused && tone === "info") ? "" : word),
    toggle ? icon(checked === undefined ? "chevron" : checked ? "check" : "ring") : "");
}

function urgencyView({ priority, deadline }, now, reader) {
  if (!priority && !deadline) return "";
  const [at, late] = [Date.parse(deadline), deadline && Date.parse(deadline) < now];
  return h("span", { class: "urgency" },
    tierView({ priority }),
    deadline ? h("span", { class: late ? "toned tone-danger" : "" }, icon("flag"), t(late ? "row.was_due" : "row.by", { time: moment(at, reader, now) })) : "");
}

/** Until when something holds a row: a pause, what its run waits for, and quiet hours its delivery. */
function heldView({ paused_until: until, waits = [], held_until }, env) {
  const lines = [...(until ? [{ kind: "resume", until }] : waits).map((wait) => lineOf(wait, "", env)), held_until ? [heldWords(held_until, env)] : []];
  return lines.filter((line) => line.length).map((line) => h("span", { class: "held" }, line));
}

function dueText(due, now, reader) {
  const away = dayNumber(due, reader.zone) - dayNumber(now, reader.zone);
  const time = h("time", { datetime: new Date(due).toISOString() }, timeOfDay(due, reader));
  if (away === 0) return [time, " ", h("span", { class: "quiet", "data-at": due }, relative(due, now, reader))];
  const named = away > 0 && away < 7 ? weekday(due, reader, now) : day(due, reader, now, "short");
  return [h("span", {}, named), " ", time];
}

function weekday(due, { zone, locale }, now) {
  const away = dayNumber(due, zone) - dayNumber(now, zone);
  if (away === 1) return upper(new Intl.RelativeTimeFormat(locale, { numeric: "auto" }).format(1, "day"), locale);
  return new Intl.DateTimeFormat(locale, { weekday: "short", timeZone: zone }).format(due);
}

function upper(text, locale) {
  return text.charAt(0).toLocaleUpperCase(locale) + text.slice(1);
}

/** One task may have a row for each of its occurrences. */
export function keyOf(row) {
  return row.expected ? `${row.id} ${row.when}` : row.id;
}

/** What a pool cannot hold together: the titles of those that are on the page, with their times. */
export function clashView({ pool, room, occurrences }, rows, reader, now) {
  const shown = occurrences.map(({ id, when, takes }) => {
    const row = rows.find((one) => one.id === id);
    return h("li", {}, h("strong", {}, row?.title ?? id), " ", h("span", { class: "quiet" }, t("list.takes", { time: moment(Date.parse(when), reader, now), duration: takes })));
  });
  return h("li", {}, t("list.clash", { pool, room }), h("ul", {}, shown));
}

/**
 * How many there are of each state, as words; of those in `atLeast` there may be more. A task whose last run failed may be counted
 * as scheduled again as well, so that is said of it, but in a list of `failures`.
 */
export function countsView(counts, atLeast = [], failures = false) {
  const shown = Object.entries(counts).filter(([, count]) => count > 0);
  return h("ul", { class: "counts", "aria-label": t("list.counts") },
    shown.map(([state, count]) => {
      const { word, picture, tone } = wordsOf(state);
      const said = FAILURES.has(state) && !failures ? t("row.last_run", { state: inside(word) }) : inside(word);
      return h("li", { class: `state tone-${tone}` }, icon(picture), t(atLeast.includes(state) ? "list.at_least" : "list.count", { count, state: said }));
    }));
}

/** What to do when there is nothing: say how something comes to be here. */
export function emptyView(filtered, failures) {
  if (failures) return h("div", { class: "empty" }, h("span", { class: "leaf round" }, icon("check")), h("h1", {}, t("empty.failures")));
  return h("div", { class: "empty" },
    h("span", { class: "leaf round" }, icon(filtered ? "clock" : "calendar")),
    h("h1", {}, filtered ? t("empty.filtered") : t("empty.nothing")),
    h("p", { class: "quiet" }, filtered ? t("empty.filtered_hint") : t("empty.hint")),
    filtered ? "" : h("ul", { class: "examples" },
      [t("empty.call"), t("empty.notes"), t("empty.oven")].map((sentence) => h("li", {}, t("empty.example", { sentence })))));
}
