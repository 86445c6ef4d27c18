/* What is different between two readings of a task, in words: shown when someone else was faster. */

import { moment, placed } from "./format.js";
import { lookOf, wordsOf } from "./words.js";

/** One line for each thing that a reader would notice. */
export function changesBetween(before, after, env) {
  const now = env.clock.now();
  const shown = (task) => ({
    Title: task.title,
    Time: timeOf(task, env.reader(), now),
    State: wordsOf(lookOf(task, Date.parse(task.when.utc), now)).word,
    Repeat: task.repeat?.text ?? "once",
    Priority: task.priority ?? "normal",
    Deadline: deadlineOf(task, env.reader(), now),
  });
  const [was, is] = [shown(before), shown(after)];
  const lines = Object.keys(was).filter((name) => was[name] !== is[name]).map((name) => ({ name, was: was[name], is: is[name] }));
  return lines.length || before.revision === after.revision ? lines : [{ name: "Details", was: `revision ${before.revision}`, is: `revision ${after.revision}` }];
}

function deadlineOf({ deadline, when }, reader, now) {
  if (!deadline) return "none";
  const at = placed(Date.parse(deadline.utc), deadline.local, when.timezone, reader);
  return `${moment(at.ms, at.reader, now)}, ${deadline.type}`;
}

function timeOf({ when }, reader, now) {
  const at = placed(Date.parse(when.utc), when.local, when.timezone, reader);
  return moment(at.ms, at.reader, now);
}
