/* What is different between two readings of a task, in words: shown when someone else was faster. */

import { moment, placed } from "./format.js";
import { inside, listed, named, t } from "./language.js";
import { ruleWords } from "./rules.js";
import { lookOf, wordsOf } from "./words.js";

/** One line for each thing that a reader would notice. */
export function changesBetween(before, after, env) {
  const now = env.clock.now();
  const shown = (task) => ({
    "field.title": task.title,
    "changed.time": timeOf(task, env.reader(), now),
    "changed.state": wordsOf(lookOf(task, Date.parse(task.when.utc), now)).word,
    "field.repeat": task.repeat ? ruleWords(task, env) : t("changed.once"),
    "field.priority": inside(named("tier", task.priority ?? "normal")),
    "field.deadline": deadlineOf(task, env.reader(), now),
  });
  const [was, is] = [shown(before), shown(after)];
  const lines = Object.keys(was).filter((name) => was[name] !== is[name]).map((name) => ({ name, was: was[name], is: is[name] }));
  return lines.length || before.revision === after.revision ? lines : [{ name: "changed.details", was: t("changed.revision", { number: before.revision }), is: t("changed.revision", { number: after.revision }) }];
}

function deadlineOf(task, reader, now) {
  const deadline = task.relative_deadline ?? task.deadline;
  if (!deadline) return t("changed.none");
  return listed([deadline.utc ? timeOf({ when: { ...task.when, ...deadline } }, reader, now) : deadline.after, named("deadline_type", deadline.type)], "unit");
}

function timeOf({ when }, reader, now) {
  const at = placed(Date.parse(when.utc), when.local, when.timezone, reader);
  return moment(at.ms, at.reader, now);
}
