/* The words of the cards in the reader's language: one catalogue, with the plurals and lists of each language through Intl. */

import { CATALOGUE } from "./catalogue.js";

const ENGLISH = "en";
let locale = ENGLISH;
let spokenIn = ENGLISH;

/** Speak the language of `wanted` from here on, or English where the catalogue does not have it. */
export function speak(wanted = ENGLISH) {
  const language = wanted.toLowerCase().split(/[-_]/)[0];
  spokenIn = CATALOGUE[language] ? language : ENGLISH;
  locale = spokenIn === language ? wanted : ENGLISH;
}

/** The text of a key, with values in its placeholders; a `count` chooses among its plurals. */
export function t(key, values = {}) {
  return filled(patternOf(key, spokenIn, locale, values), values).join("");
}

/** The same as parts, for values that are elements. */
export function parts(key, values) {
  return filled(patternOf(key, spokenIn, locale, values), values);
}

/** The text of a key for whoever reads English: the model, and the log of the host. */
export function english(key, values = {}) {
  return filled(patternOf(key, ENGLISH, ENGLISH, values), values).join("");
}

/** The text of a name from the wire in one of the catalogue's groups, or the name itself as words. */
export function named(group, name) {
  return `${group}.${name}` in CATALOGUE[ENGLISH] ? t(`${group}.${name}`) : spoken(name);
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

/** A word that stands inside a sentence. */
export function inside(word) {
  return word.toLocaleLowerCase(locale);
}

function patternOf(key, language, rules, { count }) {
  const found = CATALOGUE[language][key] ?? CATALOGUE[ENGLISH][key];
  if (typeof found === "string") return found;
  return found[new Intl.PluralRules(rules).select(count)] ?? found.other;
}

function filled(pattern, values) {
  return pattern.split(/\{(\w+)\}/).map((part, place) => (place % 2 ? values[part] : part)).filter((part) => part !== "");
}
