/* The words of the cards in the reader's language: one catalogue, with the plurals and lists of each language through Intl. */

import { CATALOGUE } from "./catalogue.js";

const ENGLISH = "en";
const RIGHT_TO_LEFT = new Set(["ar"]);
let language = ENGLISH;
let locale = ENGLISH;

/** Speak the language of a reader's locale from here on, or English where the catalogue does not have it. */
export function speak(wished) {
  const wanted = String(wished).replaceAll("_", "-");
  const [own] = wanted.toLowerCase().split("-");
  language = CATALOGUE[own] ? own : ENGLISH;
  locale = known(wanted) && language === own ? wanted : regional(wanted);
  return { locale, direction: RIGHT_TO_LEFT.has(language) ? "rtl" : "ltr" };
}

/** English with the region, clock and calendar of a reader whose language the catalogue does not have. */
function regional(wanted) {
  if (!known(wanted)) return ENGLISH;
  const { calendar, hourCycle } = new Intl.DateTimeFormat(wanted, { hour: "numeric" }).resolvedOptions();
  return new Intl.Locale(ENGLISH, { region: new Intl.Locale(wanted).maximize().region, calendar, hourCycle }).toString();
}

function known(wanted) {
  try {
    return Intl.getCanonicalLocales(wanted).length === 1;
  } catch {
    return false;
  }
}

/** The locale of the words, in which times and numbers are written too. */
export function spokenLocale() {
  return locale;
}

/** The text of a key, with values in its placeholders; a `count` chooses among its plurals. */
export function t(key, values = {}) {
  return filled(patternOf(key, language, locale, values), counted(values)).join("");
}

/** The same as parts, for values that are elements. */
export function parts(key, values) {
  return filled(patternOf(key, language, locale, values), counted(values));
}

/** The text of a key for whoever reads English: the model, and the log of the host. */
export function english(key, values = {}) {
  return filled(patternOf(key, ENGLISH, ENGLISH, values), values).join("");
}

/** Whether the catalogue has a text for a name from the wire, which may be newer than the card. */
export function isNamed(group, name) {
  return `${group}.${name}` in CATALOGUE[ENGLISH];
}

/** The text of a name from the wire in one of the catalogue's groups, or the name itself as words. */
export function named(group, name) {
  return isNamed(group, name) ? t(`${group}.${name}`) : spoken(name);
}

/** A name from the wire as words: "cancel_requested" is "Cancel requested". */
function spoken(name) {
  const words = String(name).replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Texts as one list, as the language joins them: "unit" is a row of things, "disjunction" one of them. */
export function listed(texts, type) {
  return new Intl.ListFormat(locale, { type, style: type === "unit" ? "short" : "long" }).format(texts);
}

/** Which form the number of a day has in a row: "first" of English 1st, 21st and 31st. */
export function ordinal(value) {
  return new Intl.PluralRules(locale, { type: "ordinal" }).select(value);
}

/** A country and its part by their code: "CA-AB" is "Canada AB". */
export function regionName(code) {
  const [country, part] = code.split("-");
  const name = known(`und-${country}`) ? new Intl.DisplayNames(locale, { type: "region" }).of(country) : country;
  return part ? `${name} ${part}` : name;
}

export function speaksEnglish() {
  return language === ENGLISH;
}

/** A word that stands inside a sentence. */
export function inside(word) {
  return word.toLocaleLowerCase(locale);
}

function patternOf(key, among, rules, { count }) {
  const found = CATALOGUE[among][key] || CATALOGUE[ENGLISH][key];
  if (typeof found === "string") return found;
  return found[new Intl.PluralRules(rules).select(count)] ?? found.other;
}

/** Values with their numbers written as the language writes them. */
function counted(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typeof value === "number" ? number(value) : value]));
}

export function number(value) {
  return new Intl.NumberFormat(locale).format(value);
}

function filled(pattern, values) {
  return pattern.split(/\{(\w+)\}/).map((part, place) => (place % 2 ? values[part] : part)).filter((part) => part !== "");
}
