/* Notes, warnings and refusals of the server, which it says in English, in the language of the reader. */

import { date, moment, timeText } from "./format.js";
import { isNamed, listed, speaksEnglish, t } from "./language.js";
import { withoutIds } from "./words.js";

/** Kinds whose English sentence says more than that of the catalogue can. */
const DETAILED = new Set(["time_assumed", "deadline_assumed", "damaged", "early_end", "retried", "event_each_time", "step_event_each_time"]);

/** A sentence of the server; one of a kind that this card does not know stays as it is written. */
export function noteWords(text, { words }, env) {
  const { kind, of, ...values } = words?.sentences?.[text] ?? {};
  if (!kind || !isNamed("note", kind) || (speaksEnglish() && DETAILED.has(kind))) return withoutIds(text);
  return (of ? `${of}: ` : "") + t(`note.${kind}`, valueWords(values, env));
}

function valueWords({ at, times, deadline, day, time, last, instead, ...rest }, { clock, reader }) {
  const instant = (written) => written && moment(Date.parse(written), reader(), clock.now());
  const spoken = (written) => written && timeText(written);
  return { ...rest, at: instant(at), times: times && listed(times.map(instant), "unit"), deadline: instant(deadline), day: day && date(day), time: spoken(time), last: spoken(last), instead: spoken(instead) };
}

/** Why the server refuses: for readers of other languages what kind of refusal it is, with the sentence where that says more. */
export function refusalWords(code, sentence) {
  return speaksEnglish() || !isNamed("refusal", code) ? sentence : t(`refusal.${code}`, { sentence });
}
