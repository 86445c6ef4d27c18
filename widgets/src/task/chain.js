/* A chain on the card: how far it is and each step with its state; of a single step, which one of which chain it is. */

import { bar, fact, h, icon } from "../page/dom.js";
import { t } from "../texts/language.js";
import { FAILURES, withoutIds, wordsOf } from "../texts/words.js";

const MAX_SHOWN = 20;
const MAX_NAMED = 3;
const LOST = new Set([...FAILURES, "cancelled", "skipped"]);

/** Whether the answer is about a whole chain. */
export function isChain({ chain }) {
  return Boolean(chain && !chain.step);
}

/** The names of the steps that failed, but for those that ended with what they come after. */
export function failedSteps({ steps = [] }) {
  const lost = new Set(steps.filter(({ state }) => LOST.has(state)).map(({ name }) => name));
  return steps.filter(({ state, after = [] }) => FAILURES.has(state) && !after.some((name) => lost.has(name))).slice(0, MAX_NAMED).map(({ name }) => name);
}

export function chainFact({ chain }) {
  if (!chain) return "";
  const progress = t("chain.progress", { done: chain.done, of: chain.of });
  if (!isChain({ chain })) return fact("stack", t("chain.name"), h("bdi", {}, chain.title), ", ", h("bdi", {}, chain.step), h("span", { class: "summary" }, progress));
  const steps = chain.steps ?? [];
  return fact("stack", t("chain.name"), progress,
    h("span", { class: `laxity tone-${chain.failed ? "danger" : "info"}` }, bar(chain.of ? chain.done / chain.of : 0, { start: true })),
    h("ol", { class: "chain" }, steps.slice(0, MAX_SHOWN).map(stepView)),
    steps.length > MAX_SHOWN ? h("span", { class: "summary" }, t("chain.more", { number: steps.length - MAX_SHOWN })) : "");
}

/** One step: its state as a sign and a word, its name, and why it failed or is not as expected. */
function stepView({ name, title, state, why, unverified, paused }) {
  const { word, picture, tone } = wordsOf(paused && state !== "running" ? "paused" : state);
  return h("li", { class: `tone-${unverified ? "warning" : tone}`, "data-state": state },
    icon(unverified ? "alert" : picture), h("span", {}, h("bdi", {}, title ?? name), " ", h("span", { class: "toned" }, unverified ? t("unverified.notice") : word),
      why ?? unverified ? h("span", { class: "summary" }, h("bdi", {}, withoutIds(why ?? unverified))) : ""));
}
