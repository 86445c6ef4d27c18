/* Several tasks of a list at once: chosen, what would change counted first, changed by one call, and taken back as one. */

import { actButton } from "../task/actions.js";
import { instantOf } from "../texts/calendar.js";
import { h } from "../page/dom.js";
import { wall } from "../texts/format.js";
import { canCall } from "../page/host.js";
import { english, number, parts, t } from "../texts/language.js";
import { MANY } from "../task/undo.js";
import { FAILURES, fenced, hasEnded } from "../texts/words.js";

const DID = { move: "change", replay: "run_now" };
const MAX_TOLD_TASKS = 5;
const PICTURES = { cancel: "ban", pause: "pause", resume: "play", move: "calendar", replay: "retry", discard: "ban" };
const OF_FAILURES = new Set(["replay", "discard"]);

/** Whether a row is chosen; nothing of what cannot be changed with others, as an occurrence to come. */
export function isChosen({ chosen }, row) {
  return chosen && !row.expected && (!hasEnded(row) || FAILURES.has(row.state)) ? chosen.has(row.id) : undefined;
}

/** Whether a task of the list failed, or the last run of one that goes on: it may have a dead letter. */
function hasFailures({ rows }) {
  return rows.some((row) => FAILURES.has(hasEnded(row) ? row.state : row.last_run?.state));
}

/** Take a task to the others that are chosen, or away from them; what was counted counts no more. */
export function choose(list, { id }) {
  if (!list.chosen.delete(id)) list.chosen.add(id);
  list.wish = undefined;
  list.draw();
}

/** What one call did to many tasks, with its undo; of one that was only tried, for how many of all it would. */
export function doneView(list) {
  const { bulk, env } = list;
  if (!bulk) return "";
  const back = bulk.undo && canCall(env) && Date.parse(bulk.undo_until) > env.clock.now();
  const said = bulk.dry_run ? countOf(bulk) : parts("undo.done", { did: `${wordOf("did", bulk)}: ${number(bulk.changed)}`, within: "" });
  return h("div", { class: "undo" }, h("p", {}, said, finalView(bulk)), back ? actButton(list, "undo", "undo", t("button.undo"), () => change(list, { change: "undo", undo: bulk.undo }), "strong") : "");
}

/** The buttons for what is chosen: one is pressed, for how many of all it would do something is counted, and then it is done. */
export function chooserView(list) {
  const { chosen, wish, rows, fixed, env } = list;
  if (fixed || !canCall(env) || !rows.some((row) => isChosen({ chosen: new Set() }, row) === false)) return "";
  const put = (found) => list.draw(Object.assign(list, found));
  const bar = (...inside) => h("div", { class: "bar" }, inside);
  if (!chosen) return bar(actButton(list, "select", "check", t("button.select"), () => put({ chosen: new Set(), bulk: undefined })));
  const keep = actButton(list, "keep", "undo", t("button.keep"), () => put({ chosen: undefined, wish: undefined }));
  const asks = (found) => {
    put({ wish: { ...found, task_ids: [...chosen] } });
    if (found.to || found.change !== "move") count(list);
  };
  const verb = (name) => actButton(list, name, PICTURES[name], wordOf("button", { change: name }), () => chosen.size && asks({ change: name, ...(name === "discard" ? { reason: english("model.on_card") } : {}) }));
  if (!wish) return bar(Object.keys(PICTURES).filter((name) => hasFailures(list) || !OF_FAILURES.has(name)).map(verb), keep);
  const [text, { found, ...args }] = [wordOf("button", wish), wish];
  return bar(
    wish.change === "move" ? h("input", { type: "date", "data-key": "day", "aria-label": text, value: wish.to, onchange: (event) => asks({ change: "move", to: event.target.value }) }) : "",
    wish.change === "pause" ? untilView(env, (to) => asks({ change: "pause", to })) : "",
    found ? h("p", { role: "status" }, countOf(found), finalView(found)) : "",
    found?.changed ? actButton(list, "do", PICTURES[wish.change], text, () => change(list, args), "strong") : "", keep);
}

/** Until when to pause, as a wall time of the reader; without one until somebody resumes them. */
function untilView({ reader, clock }, asks) {
  const { zone } = reader();
  const typed = ({ target: { value } }) => asks(value ? new Date(instantOf(value, zone)).toISOString().replace(".000", "") : undefined);
  return h("label", { class: "choice" }, t("field.paused_until"), h("input", { type: "datetime-local", "data-key": "until", min: wall(clock.now(), zone), onchange: typed }));
}

/** How many of the cancelled tasks no undo brings back. */
function finalView(bulk) {
  return bulk.final ? h("small", {}, " ", t("undo.none", { did: `${wordOf(bulk.dry_run ? "button" : "did", bulk)}: ${number(bulk.final)} / ${number(bulk.changed)}` })) : "";
}

function countOf({ changed, unchanged = 0, refused = 0, left = 0, change: verb }) {
  return `${wordOf("button", { change: verb })}: ${number(changed)} / ${number(changed + unchanged + refused + left)}`;
}

function wordOf(group, { change: verb }) {
  return t(`${group}.${group === "button" && verb === "replay" ? "run_again" : DID[verb] ?? verb}`);
}

async function count(list) {
  const { wish } = list;
  const page = await askMany(list, { ...wish, dry_run: true });
  list.draw(page ? (wish.found = page.bulk) : (list.wish = undefined));
}

async function change(list, args) {
  const page = await askMany(list, args);
  if (!page) return;
  const { bulk } = page;
  Object.assign(list, { bulk, chosen: undefined, wish: undefined });
  list.env.announce(`${wordOf("did", bulk)}: ${number(bulk.changed)}`);
  const named = page.tasks.filter(({ became }) => !became).slice(0, MAX_TOLD_TASKS).map(({ id, title }) => `${id} ${fenced(title)}`);
  const tasks = [...named, ...(bulk.changed > named.length ? ["…"] : [])].join(", ");
  list.env.bridge.tellModel(english("model.many", { did: english(`did.${DID[bulk.change] ?? bulk.change}`), number: bulk.changed, tasks }), { action: bulk.change });
  list.changed(page);
}

async function askMany(list, args) {
  list.draw((list.pending = true));
  const page = await list.env.bridge.call(MANY, args).catch((error) => list.fail(error.message, error.away));
  list.draw((list.pending = undefined));
  return page;
}
