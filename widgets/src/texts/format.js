/* Instants as the reader writes them: the host's time zone and language, through Intl alone. */

import { spokenLocale, t } from "./language.js";

const DAY = 86_400_000;
const made = new Map();

/** A formatter, made once; an unknown zone or language falls back to the browser's own. */
function formatter(kind, locale, options) {
  const key = `${kind.name} ${locale} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, make(kind, locale, options));
  return made.get(key);
}

function make(kind, locale, options) {
  for (const attempt of [[locale, options], [undefined, options], [locale, { ...options, timeZone: undefined }]]) {
    try {
      return new kind(...attempt);
    } catch {
      continue;
    }
  }
  return new kind();
}

function dates(options, zone, locale) {
  return formatter(Intl.DateTimeFormat, locale, { ...options, timeZone: zone });
}

/** The host's zone, or the browser's, and the locale of the words. */
export function readerOf(context) {
  return { zone: context.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone, locale: spokenLocale() };
}

export function timeOfDay(ms, { zone, locale }) {
  return dates({ timeStyle: "short" }, zone, locale).format(ms);
}

/** A day in words, with its year where that is not this one. */
export function day(ms, { zone, locale }, now, weekday = "long") {
  const yearOf = (instant) => dates({ year: "numeric" }, zone, locale).format(instant);
  const sameYear = yearOf(ms) === yearOf(now);
  const options = { weekday, day: "numeric", month: weekday === "long" ? "long" : "short" };
  return dates(sameYear ? options : { ...options, year: "numeric" }, zone, locale).format(ms);
}

export function moment(ms, reader, now) {
  return t("time.day", { day: day(ms, reader, now, "short"), time: timeOfDay(ms, reader) });
}

const MONDAY = Date.UTC(2001, 0, 1);
const CODES = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/** A weekday by its code: "MO" is "Monday". */
export function dayName(code) {
  return dates({ weekday: "long" }, "UTC", spokenLocale()).format(MONDAY + CODES.indexOf(code) * DAY);
}

/** A month of the calendar that rules count in, by its number from 1. */
export function monthName(month) {
  return dates({ month: "long", calendar: "gregory" }, "UTC", spokenLocale()).format(Date.UTC(2001, month - 1, 1));
}

/** A day of each year. */
export function dateOfYear(day, month) {
  return dates({ day: "numeric", month: "long", calendar: "gregory" }, "UTC", spokenLocale()).format(Date.UTC(2000, month - 1, day));
}

/** A written date with its year. */
export function date(text) {
  return dates({ dateStyle: "long" }, "UTC", spokenLocale()).format(Date.parse(text));
}

/** A written time of day, with seconds where it has some. */
export function timeText(text) {
  return dates({ timeStyle: text.length > "00:00".length ? "medium" : "short" }, "UTC", spokenLocale()).format(Date.parse(`2001-01-01T${text}Z`));
}

/** The leaf of a calendar: month and day of the month, both of the reader's own calendar. */
export function leaf(ms, { zone, locale }) {
  return {
    month: dates({ month: "short" }, zone, locale).format(ms).replace(".", ""),
    day: dates({ day: "numeric" }, zone, locale).formatToParts(ms).find(({ type }) => type === "day").value,
  };
}

/** A count that grows by one each midnight of the zone. */
export function dayNumber(ms, zone) {
  const [year, month, date] = iso(ms, zone).split("-").map(Number);
  return Date.UTC(year, month - 1, date) / DAY;
}

/** The date and time in a zone as `<input type="datetime-local">` takes it. */
export function wall(ms, zone) {
  const time = dates({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, zone, "en-GB").format(ms);
  return `${iso(ms, zone)}T${time}`;
}

function iso(ms, zone) {
  return dates({ year: "numeric", month: "2-digit", day: "2-digit" }, zone, "en-CA").format(ms);
}

/**
 * Where to show an instant that belongs to `zone` and is written with its wall time there. A reader in that very zone gets the
 * wall time as it is written: the server's time zone data counts, for the browser's may be older.
 */
export function placed(ms, written, zone, reader) {
  return reader.zone === zone ? inOwnZone(written, reader) : { ms, reader };
}

/** A written wall time as an instant that shows just that. */
export function inOwnZone(written, reader) {
  return { ms: Date.parse(`${written.slice(0, 16)}Z`), reader: { ...reader, zone: "UTC" } };
}

/** The last part of an IANA name, as people say it: "America/New_York" is "New York". */
export function city(zone) {
  return zone.split("/").at(-1).replaceAll("_", " ");
}

const STEPS = [
  [59_500, "second", 1_000],
  [59.5 * 60_000, "minute", 60_000],
  [60.5 * 60_000, "hour", 3_600_000],
  [119.5 * 60_000, "minute", 60_000],
  [36 * 3_600_000, "hour", 3_600_000],
  [60 * DAY, "day", DAY],
  [Infinity, "month", 30.44 * DAY],
];

/** How far an instant is from now, in the reader's language; days are counted by their midnights: "in 3 days". */
export function relative(ms, now, { zone, locale }) {
  const away = ms - now;
  const [, unit, length] = STEPS.find(([limit]) => Math.abs(away) < limit);
  const count = unit === "day" ? dayNumber(ms, zone) - dayNumber(now, zone) : Math.round(away / length) || 0;
  return formatter(Intl.RelativeTimeFormat, locale, { numeric: "auto" }).format(count, unit);
}
