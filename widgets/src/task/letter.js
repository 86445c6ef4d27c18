/* The dead letter of a task: what its run was given and why it failed for good; to be run again as it is or changed, or discarded. */

import { actButton } from "./actions.js";
import { h } from "../page/dom.js";
import { moment } from "../texts/format.js";
import { english, inside, t } from "../texts/language.js";
import { previewView } from "./preview.js";
import { wordsOf } from "../texts/words.js";

export function letterPanel(card) {
  const { letter, task, env } = card;
  if (!letter) return h("p", { class: "quiet", role: "status" }, t("history.reading"));
  const given = JSON.stringify(letter.payload, null, 2);
  const typed = () => card.draft?.payload ?? given;
  const args = () => objectOf(typed()) && { payload: objectOf(typed()), when: "now", revision: card.task.revision };
  const again = () => {
    if (typed() === given) card.act("run_now", "act_on_task", { action: "run_now", revision: card.task.revision });
    else if (args()) card.act("run_now", "reschedule_task", args());
  };
  const discard = () => card.act("discard", "change_tasks", { change: "discard", task_ids: [task.id], reason: english("model.on_card") });
  return h("div", { class: "change edit" },
    h("p", {}, t("last.time", { state: inside(wordsOf("failed").word) }), " ", moment(Date.parse(letter.since), env.reader(), env.clock.now()), ", ", t("row.attempts", { count: letter.attempts })),
    letter.reason === task.last_run?.summary ? "" : h("p", { class: "why" }, h("bdi", {}, letter.reason)),
    h("label", { class: "field" }, h("span", {}, t("field.payload")), h("textarea", {
      "data-key": "letter-payload", rows: Math.min(given.split("\n").length, 12), dir: "ltr", spellcheck: "false", readonly: task.repeat !== undefined || letter.cut,
      oninput: (event) => card.edit("payload", event.target.value, args),
    }, typed())),
    objectOf(typed()) || letter.cut ? previewView(card) : h("p", { class: "toned tone-danger", role: "alert" }, t("letter.wrong")),
    h("div", { class: "bar" }, actButton(card, "letter-again", "retry", t("button.run_again"), again, "strong"),
      letter.state === "open" ? actButton(card, "discard", "ban", t("button.discard"), discard, "danger") : ""));
}

/** The object that a text is as JSON, or nothing. */
function objectOf(text) {
  try {
    const found = JSON.parse(text);
    return typeof found === "object" && !Array.isArray(found) && found ? found : undefined;
  } catch {
    return undefined;
  }
}
