/* The bar that takes a change back, for as long as the server would; its last minute is counted. Or it says that it cannot be. */

import { h } from "../page/dom.js";
import { number, parts, t } from "../texts/language.js";
import { actButton } from "./actions.js";

export const MANY = "change_tasks";
const COUNTED = 60;

export function secondsLeft(card, now) {
  return card.undo ? Math.ceil((card.undo.until - now) / 1000) : 0;
}

/** The bar with its countdown, or nothing. */
export function undoView(card) {
  const left = secondsLeft(card, card.env.clock.now());
  if (left <= 0) return card.final ? h("p", { class: "quiet hint" }, t("undo.none", { did: t(`did.${card.final}`) })) : "";
  const { token: undo, name } = card.undo;
  const back = () => (name === "discard" ? card.act("undo", MANY, { change: "undo", undo }) : card.act("undo", "act_on_task", { action: "undo", revision: card.task.revision, undo }));
  return h("div", { class: "undo" },
    h("p", {}, parts("undo.done", {
      did: t(`did.${name}`), within: left <= COUNTED ? h("span", { class: "quiet" }, parts("undo.within", { seconds: h("span", { "data-undo": "" }, number(left)) })) : "" })),
    actButton(card, "undo", "undo", t("button.undo"), back, "strong"));
}
