/* A task as a calendar file (RFC 5545): one event, its recurrence and its exception, and the zone that its wall times need. */

import { wall } from "./format.js";

const RULE = /^FREQ=[A-Z]+(;(INTERVAL|BY[A-Z]+|WKST|UNTIL)=[-+\w,]+)*$/;
const BY_ELAPSED_TIME = /^FREQ=(MINUTELY|HOURLY)/;
const LINE_BYTES = 75;
const YEAR_MS = 365 * 86_400_000;
const WEEK_MS = 7 * 86_400_000;
const MINUTE_MS = 60_000;
const ZONE_YEARS = 10;

/** The whole file, with the line ends that the standard asks for. */
export function calendarOf(task, now) {
  const rule = task.repeat && ruleOf(task);
  const inZone = Boolean(rule) && !BY_ELAPSED_TIME.test(rule);
  const first = task.repeat?.moved_from ?? task.when.utc;
  const lines = [
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Duetime//Cards//EN", "CALSCALE:GREGORIAN", "METHOD:PUBLISH",
    ...(inZone ? zoneLines(task.when.timezone, Date.parse(first)) : []),
    ...event(task, now, [`DTSTART${at(first, task, inZone)}`, rule ? `RRULE:${rule}` : "", rule ? "" : datesOf(task)]),
    ...(rule && task.repeat.moved_from ? event(task, now, [`RECURRENCE-ID${at(first, task, inZone)}`, `DTSTART${at(task.when.utc, task, inZone)}`]) : []),
    "END:VCALENDAR",
  ];
  return lines.map((line) => `${folded(line)}\r\n`).join("");
}

function event({ id, revision, title, message }, now, times) {
  return [
    "BEGIN:VEVENT", `UID:${id}@duetime`, `DTSTAMP:${utcStamp(now)}`, `SEQUENCE:${revision}`, ...times.filter(Boolean),
    `SUMMARY:${escaped(title)}`, message ? `DESCRIPTION:${escaped(message)}` : "", "END:VEVENT",
  ].filter(Boolean);
}

/**
 * The rule, with its end as the standard has it; nothing where it is none of the standard's, or counts runs of which some may
 * be over. The next occurrences stand for it then.
 */
function ruleOf({ repeat, when }) {
  if (!RULE.test(repeat.rule)) return "";
  const [own] = repeat.rule.match(/UNTIL=\w+/) ?? [];
  const until = repeat.until ? utcStamp(Date.parse(repeat.until)) : own && endOf(own.slice("UNTIL=".length), when.timezone);
  const end = until ? `;UNTIL=${until}` : repeat.runs_left === undefined ? "" : `;COUNT=${repeat.runs_left}`;
  return repeat.rule.replace(/;UNTIL=\w+/, "") + end;
}

/** A date or wall time as the last moment that it means. */
function endOf(text, zone) {
  if (text.endsWith("Z")) return text;
  const [, year, month, day, hour = "23", minute = "59", second = "59"] = text.match(/^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d))?$/);
  return utcStamp(instantOf(`${year}-${month}-${day}T${hour}:${minute}:${second}`, zone));
}

/** The instant of a wall time in a zone. */
export function instantOf(wallTime, zone) {
  const there = Date.parse(`${wallTime}Z`);
  return there - offsetAt(there - offsetAt(there, zone), zone);
}

function datesOf({ repeat, when }) {
  const others = (repeat?.next ?? []).map((text) => Date.parse(text)).filter((instant) => instant !== Date.parse(when.utc));
  return others.length ? `RDATE:${others.map(utcStamp).join(",")}` : "";
}

function at(text, { when }, inZone) {
  if (!inZone) return `:${utcStamp(Date.parse(text))}`;
  return `;TZID=${when.timezone}:${localStamp(Date.parse(text) + offsetAt(Date.parse(text), when.timezone))}`;
}

function utcStamp(instant) {
  return `${localStamp(instant)}Z`;
}

function localStamp(shifted) {
  return new Date(shifted).toISOString().slice(0, 19).replace(/[-:]/g, "");
}

/** How far the wall clock of a zone is ahead of UTC at an instant. */
function offsetAt(instant, zone) {
  const minute = Math.floor(instant / MINUTE_MS) * MINUTE_MS;
  return Date.parse(`${wall(minute, zone)}Z`) - minute;
}

/** The zone with each change of its clock in the years around an event. */
function zoneLines(zone, around) {
  const start = Math.floor((around - YEAR_MS) / MINUTE_MS) * MINUTE_MS;
  const changes = [{ instant: start, before: offsetAt(start, zone) }];
  for (let week = start; week < around + ZONE_YEARS * YEAR_MS; week += WEEK_MS) {
    if (offsetAt(week, zone) !== offsetAt(week + WEEK_MS, zone)) changes.push(changeWithin(week, week + WEEK_MS, zone));
  }
  const standard = Math.min(...changes.map(({ instant }) => offsetAt(instant, zone)));
  return ["BEGIN:VTIMEZONE", `TZID:${zone}`, ...changes.flatMap((change) => observance(change, zone, standard)), "END:VTIMEZONE"];
}

function changeWithin(from, to, zone) {
  const before = offsetAt(from, zone);
  let [low, high] = [from, to];
  while (high - low > MINUTE_MS) {
    const middle = Math.floor((low + high) / 2 / MINUTE_MS) * MINUTE_MS;
    if (offsetAt(middle, zone) === before) low = middle;
    else high = middle;
  }
  return { instant: high, before };
}

function observance({ instant, before }, zone, standard) {
  const after = offsetAt(instant, zone);
  const kind = after > standard ? "DAYLIGHT" : "STANDARD";
  return [`BEGIN:${kind}`, `DTSTART:${localStamp(instant + before)}`, `TZOFFSETFROM:${signed(before)}`, `TZOFFSETTO:${signed(after)}`, `END:${kind}`];
}

function signed(offset) {
  const minutes = Math.abs(offset) / MINUTE_MS;
  const two = (number) => String(number).padStart(2, "0");
  return `${offset < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}${two(minutes % 60)}`;
}

function escaped(text) {
  return text.replace(/[\\;,]/g, "\\$&").replace(/\r\n|\r|\n/g, "\\n").replace(/\p{Cc}/gu, " ");
}

/** A line of at most 75 bytes, continued on the next ones; no character is cut in two. */
function folded(line) {
  const [encoder, lines] = [new TextEncoder(), [""]];
  let bytes = 0;
  for (const character of line) {
    const size = encoder.encode(character).length;
    if (bytes + size > LINE_BYTES) [lines[lines.length], bytes] = [" ", 1];
    lines[lines.length - 1] += character;
    bytes += size;
  }
  return lines.join("\r\n");
}
