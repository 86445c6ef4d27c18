/* One task card: what it knows, what its buttons do, and when it reads its task again. */

import { redraw, find } from "../page/dom.js";
import { calendarOf } from "../texts/calendar.js";
import { deadlineLook } from "./deadline.js";
import { relative } from "../texts/format.js";
import { MOVABLE } from "./actions.js";
import { isOutdated } from "./pace.js";
import { MANY, secondsLeft } from "./undo.js";
import { turns } from "../page/turns.js";
import { taskView } from "./view.js";
import { changesBetween } from "../texts/changes.js";
import { english, inside, number, t } from "../texts/language.js";
import { fenced, hasEnded, lookOf, withoutIds, wordsOf } from "../texts/words.js";

const UNDO_FOR = 30_000;
const TYPED_FOR = 400;
const CLOSED = { panel: "", typed: undefined, draft: undefined, following: false, tried: undefined, asked: undefined };
const READING = new Set(["history", "letter"]);
const FIRST = { change: "when", edit: "edit-title" };
const REPEATED = "repeated_call";
const IDLE = new Set([REPEATED, "unchanged", "already_cancelled"]);

/**
 * A card inside `host`. `env` gives what it stands in: bridge, clock, reader() (zone and language), announce(text),
 * and changed(task) for whoever shows the task elsewhere too.
 */
export function taskCard(host, env) {
  const card = {
    phase: "loading", title: "", failure: "", error: "", changes: [], panel: "", opener: "", unfolded: false, final: "", away: false, look: "", urgency: "", readAt: 0, unchanged: 0, readings: turns(),
  };
  host.addEventListener("keydown", (event) => event.key === "Escape" && shut(card, event));
  return Object.assign(card, {
    env,
    draw: () => draw(card, host),
    show: (task, how) => show(card, task, how),
    fail: (sentence) => fail(card, sentence),
    read: (extra) => read(card, extra),
    open: (panel) => open(card, host, panel),
    type: (text, args) => type(card, text, args),
    scope: (following, args) => scope(card, following, args),
    edit: (name, value, args) => edit(card, name, value, args),
    keep: () => keep(card),
    act: (name, tool, args) => act(card, name, tool, args),
    tick: () => tick(card, host),
  });
}

export function dueOf(task) {
  return Date.parse(task.when.utc);
}

function draw(card, host) {
  host.setAttribute("aria-busy", String(card.phase === "loading" || card.pending !== undefined));
  if (card.task) Object.assign(card, looksOf(card));
  redraw(host, () => taskView(card), card.opener);
}

/** How the task looks now, and how its deadline stands: what time alone may change. */
function looksOf({ task, env }) {
  const now = env.clock.now();
  return { look: lookOf(task, dueOf(task), now), urgency: deadlineLook(task, now) };
}

/**
 * Take over a task from the server: `fresh` when it answers a call made just now, `reread` when that changed nothing, `name`
 * of the action that changed it. An older one is left out, but for its history. A run before the next of its `series` is shown.
 */
function show(card, task, { fresh = false, reread = false, name = "" } = {}) {
  task = { ...task, series: task, ...(task.extra_run && { deadline: undefined, relative_deadline: undefined, ...task.extra_run }) };
  if (fresh) card.env.clock.hear(task.now);
  if (task.history) Object.assign(card, { history: { ...task.history, log: task.log }, letter: task.letter });
  card.readAt = card.env.clock.now();
  if (isOlder(task, card.task)) return card.draw();
  const [same, undo] = [reread && task.revision === card.task?.revision, task.created ? undefined : task.undo];
  const final = name && name !== "undo" && !undo && !idleKind(task);
  if (!same) card.final = final ? (task.cancel_requested ? "stop" : name) : "";
  const did = name || (task.state === "cancelled" ? "cancel" : "edit");
  if (undo || !same) card.undo = undo ? { token: undo, until: name === "approve" ? Infinity : Date.parse(task.undo_until) || Date.parse(task.now) + UNDO_FOR, name: (same && card.undo?.name) || did } : undefined;
  if (card.undo?.until === Infinity && !MOVABLE.has(task.state)) card.undo = undefined;
  card.unchanged = same && !["state", "last_run", "delivery"].some((part) => JSON.stringify(task[part]) !== JSON.stringify(card.task[part])) ? card.unchanged + 1 : 0;
  if (reread) announceOutcome(card, task);
  Object.assign(card, { task, phase: "shown", away: false });
  card.draw();
  if (fresh) card.env.changed?.(task, reread);
}

/** Why an answer changed nothing: it is that of an earlier call, maybe of another card with its undo, or all was so already. */
function idleKind({ words }) {
  return Object.values(words?.sentences ?? {}).find(({ kind }) => IDLE.has(kind))?.kind;
}

function isOlder(task, shown) {
  return task.id === shown?.id && task.revision < shown.revision && task.now <= shown.now;
}

/** What came of a task since it was read last, for those who do not see it. */
function announceOutcome({ task: before, env }, task) {
  const last = task.last_run;
  if (!before || !last || last.ended === before.last_run?.ended) return;
  const look = hasEnded(task) ? lookOf(task, dueOf(task), env.clock.now()) : last.state;
  env.announce(t("announce.outcome", { title: task.title, state: wordsOf(look).word }));
}

function fail(card, sentence, retry) {
  card.retry = retry;
  if (card.task && card.error === sentence) return;
  card.failure = sentence;
  card.phase = card.task ? "shown" : "failed";
  card.error = card.task ? sentence : "";
  card.draw();
}

/** Read the task again by its id, for a host may show an old answer; a reading that is under way comes first. */
function read(card, extra = {}) {
  return card.readings.take(extra.history ? "history" : "task", () => readNow(card, extra));
}

/** What each change of one task changes: marking it as done reads its messages. */
function standOf({ revision, unread }) {
  return `${revision} ${unread?.length}`;
}

/** Read it; an action that met an away server is still to be tried again, unless the task has changed since. */
async function readNow(card, extra) {
  try {
    const found = await card.env.bridge.call("get_task", { task_id: card.id, ...extra });
    if (card.retry?.undone === standOf(found)) card.error = t("error.undone");
    else if (card.away || card.retry?.undone || card.error === card.failure) Object.assign(card, { error: "", retry: undefined });
    card.show(found, { fresh: true, reread: true });
  } catch (error) {
    Object.assign(card, { readAt: card.env.clock.now(), away: error.away });
    fail(card, error.message, card.retry?.undone ? card.retry : () => card.read(extra));
  }
}

function open(card, host, panel) {
  const opened = card.panel === panel ? "" : panel;
  close(card);
  Object.assign(card, { opener: panel, panel: opened });
  if (READING.has(opened)) card.read({ history: true, keep_unread: true });
  card.draw();
  find(host, FIRST[card.panel])?.focus();
}

/** Close the panel, with what was typed into it and what is being asked about that. */
function close(card) {
  clearTimeout(card.asking);
  Object.assign(card, CLOSED);
}

/** What is typed is kept; of a recurring task the card then asks what would come of it. */
function type(card, text, args) {
  Object.assign(card, { typed: text, tried: undefined, asked: undefined });
  clearTimeout(card.asking);
  if (card.task.repeat && text) card.asking = setTimeout(() => preview(card, args()), TYPED_FOR);
  card.draw();
}

/** What is typed into a field of the task is kept, and tried a moment later. */
function edit(card, name, value, args) {
  Object.assign(card, { draft: { ...card.draft, [name]: value }, tried: undefined, asked: undefined });
  clearTimeout(card.asking);
  card.asking = setTimeout(() => card.draft && args() && preview(card, args()), TYPED_FOR);
  card.draw();
}

function scope(card, following, args) {
  clearTimeout(card.asking);
  Object.assign(card, { following, tried: undefined, asked: undefined });
  if (card.typed) preview(card, args());
  card.draw();
}

/** Show what would come of it; only the answer to the newest question counts. */
async function preview(card, args) {
  card.asked = args;
  const tried = await card.env.bridge
    .call("reschedule_task", { task_id: card.task.id, ...args, dry_run: true })
    .catch((error) => ({ error: error.message }));
  if (card.asked !== args) return;
  card.tried = tried;
  card.draw();
}

/** Escape closes the panel and leads back to the button that opened it. */
function shut(card, event) {
  if (!card.panel) return;
  event.stopPropagation();
  close(card);
  card.draw();
}

/** Call a tool for a button: pending at once, then the new state, or the server's sentence over the old one. */
async function act(card, name, tool, args) {
  if (card.pending) return;
  const [before, panel] = [card.task, card.panel];
  const opener = panel || (name === "undo" ? card.opener : name);
  Object.assign(card, { pending: name, opener, error: "", changes: [], retry: undefined });
  card.draw();
  const done = (task) => {
    if (card.panel === panel) close(card);
    Object.assign(card, { pending: undefined, error: "", retry: undefined });
    card.show(task, { fresh: true, name });
    say(card, name);
  };
  try {
    done(await press(card.env.bridge, before.id, tool, args));
  } catch (error) {
    if (tool !== MANY) error.later?.then((task) => (card.pending ? card.show(task, { fresh: true }) : done(task)), () => undefined);
    card.pending = undefined;
    if (error.away) Object.assign(card, { away: true, retry: Object.assign(() => act(card, name, tool, args), { undone: tool !== MANY && standOf(before) }) });
    else if (name === "undo" && !error.stale) card.undo = undefined;
    await refused(card, before, error);
  }
}

/** Call a tool about the task; one about many answers with a list, and the task is read after it. */
async function press(bridge, id, tool, args) {
  if (tool !== MANY) return bridge.call(tool, { task_id: id, ...args });
  const { bulk, tasks } = await bridge.call(tool, args);
  if (bulk.refused) throw new Error(withoutIds(tasks[0].why));
  return { ...(await bridge.call("get_task", { task_id: id })), undo: bulk.undo, undo_until: bulk.undo_until };
}

/** Offer the task as a calendar file. */
async function keep(card) {
  const { task, env } = card;
  await env.bridge.download(`${task.id}.ics`, "text/calendar", calendarOf(task.series, env.clock.now()))
    .then(() => env.announce(t("announce.did", { did: t("did.calendar") })), (error) => card.fail(error.message));
}

function say(card, name) {
  const { task, env } = card;
  const idle = idleKind(task);
  if (idle && idle !== REPEATED) return env.announce(t(`note.${idle}`));
  const did = card.look === "stopping" ? "did.stop" : `did.${name}`;
  env.announce(inWords(card, t(did)));
  env.tell(task);
  const told = { id: task.id, revision: task.revision, state: task.state, when: task.when };
  const state = task.paused && !hasEnded(task) ? "paused" : task.state;
  env.bridge.tellModel(
    english("model.did", { ...told, title: fenced(task.title), did: inside(english(did)), state, when: task.when.text, zone: task.when.timezone }),
    { action: name, task: told },
  );
}

function inWords({ task, env }, did) {
  if (hasEnded(task)) return t("announce.did", { did });
  return t("announce.due", { did, relative: relative(dueOf(task), env.clock.now(), env.reader()) });
}

/** Say why nothing was done, and show the task as it is by now: what refused may be newer than the buttons. */
async function refused(card, before, error) {
  card.error = error.stale ? "" : error.message;
  if (!error.away) await card.read();
  if (error.stale) card.changes = changesBetween(before, card.task, card.env);
  card.draw();
  card.env.announce("");
}

/** Once a second: relative times, the undo countdown, a look that time changed, and whether to read again. */
function tick(card, host) {
  const now = card.env.clock.now();
  for (const node of host.querySelectorAll("[data-at]")) {
    node.textContent = relative(Number(node.dataset.at), now, card.env.reader());
  }
  if (!card.task || card.pending) return;
  countDown(card, host, now);
  const { look, urgency } = looksOf(card);
  if (look !== card.look || urgency !== card.urgency) card.draw();
  if (!card.readings.busy() && isOutdated(card, now) && document.visibilityState === "visible") card.read();
}

function countDown(card, host, now) {
  const shown = host.querySelector("[data-undo]");
  if (!shown) return;
  const left = secondsLeft(card, now);
  if (left > 0) shown.textContent = number(left);
  else card.draw();
}
