/* A recurrence in words: the clauses that the server says in English, in the language of the reader. */

import { date, dateOfYear, dayName, moment, monthName, timeText } from "./format.js";
import { isNamed, listed, number, ordinal, regionName, speaksEnglish, t } from "./language.js";

const NTH = ["first", "second", "third", "fourth", "fifth"];
const ONE_O_CLOCK = /^0?1\D/;

/** The words of a task's recurrence; a rule that this card has no words for is said to be just that, and its dates show it. */
export function ruleWords({ repeat, words }, env) {
  const clauses = words?.repeat ?? [];
  const known = clauses.length > 0 && clauses.every(({ kind, unit }) => (kind === "every" ? isNamed("every", unit) : isNamed("rule", kind)));
  if (known) return clauses.reduce((rule, clause) => withClause(rule, clause, env), "");
  return speaksEnglish() ? repeat.text : t("rule.other");
}

function withClause(rule, { kind, ...values }, env) {
  if (kind === "every") return everyWords(values);
  if (kind === "on") return onWords(rule, values);
  if (kind === "on_workday") return t("rule.on_workday", { rule, days: listed(fromTheStart(values.positions).map((nth) => nthName(nth, t("day.work"))), "conjunction") });
  const said = worded(values, env);
  return t(`rule.${kind === "at" && ONE_O_CLOCK.test(said.times) ? "at_one" : kind}`, { rule, ...said });
}

function everyWords({ unit, count }) {
  return count === 1 ? t(`each.${unit}`) : t(`every.${unit}`, { count });
}

/** On days of the month, on days of the week, on either, or on those that are both. */
function onWords(rule, { monthdays = [], weekdays = [], either }) {
  const plain = weekdays.every((code) => code.length === 2);
  const [dates, days] = [fromTheStart(monthdays).map(monthdayName), weekdays.map(weekdayName)];
  const each = plain ? days.map((name) => t("rule.weekdays", { days: name })) : days;
  if (either) return t("rule.on", { rule, days: listed([...dates, ...each], "disjunction") });
  const on = (named, key) => t(key, { rule, days: listed(named, "conjunction") });
  if (dates.length === 0) return on(days, plain ? "rule.on_weekdays" : "rule.on");
  if (days.length === 0) return on(dates, "rule.on");
  return t("rule.only_on", { rule: on(dates, "rule.on"), days: listed(days, "disjunction") });
}

/** Days of a month in their order: those counted from its end are behind the others. */
function fromTheStart(days) {
  return [...days.filter((day) => day > 0), ...days.filter((day) => day < 0)];
}

/** The values of a clause in words, by the names of the placeholders. */
function worded({ weekdays = [], months = [], times = [], minutes = [], hours = [], day, month, first, last, unit, count, calendar, until }, env) {
  const joined = (texts) => listed(texts, "conjunction");
  return {
    days: joined(weekdays.map(weekdayName)), months: joined(months.map(monthName)), times: joined(times.map(timeText)),
    minutes: joined(minutes.map(number)), hours: joined(hours.map(number)),
    date: day && dateOfYear(day, month), first: first && timeText(first), last: last && timeText(last),
    every: unit && everyWords({ unit, count }), number: count && t("times.count", { count }), place: calendar && regionName(calendar), until: until && untilOf(until, env),
  };
}

function weekdayName(code) {
  return nthName(Number(code.slice(0, -2)), dayName(code.slice(-2)));
}

function nthName(nth, day) {
  if (nth === 0) return day;
  if (nth === -1) return t("nth.last", { day });
  if (nth < 0) return t("nth.from_end", { day, count: -nth });
  return nth > NTH.length ? t("nth.later", { day, count: nth }) : t(`nth.${NTH[nth - 1]}`, { day });
}

function monthdayName(day) {
  if (day > 0) return t(`ordinal.${ordinal(day)}`, { day });
  return day === -1 ? t("day.last") : t("day.from_end", { day: -day });
}

/** The end of a rule: a day, a wall time of its zone, or an instant. */
function untilOf(text, env) {
  const [now, reader] = [env.clock.now(), env.reader()];
  if (!text.includes("T")) return date(text);
  return /[+Z]/.test(text) ? moment(Date.parse(text), reader, now) : moment(Date.parse(`${text}Z`), { ...reader, zone: "UTC" }, now);
}
