/* The list card: an agenda that opens each task in place, with the task card's own code. */

import { start } from "./page/app.js";
import { h, icon, placeOf, redraw } from "./page/dom.js";
import { relative } from "./texts/format.js";
import { canCall } from "./page/host.js";
import { listed, number, t } from "./texts/language.js";
import { taskCard } from "./task/card.js";
import { quietPause } from "./task/pace.js";
import { turns } from "./page/turns.js";
import { agenda, clashView, countsView, emptyView, keyOf, rowView } from "./list/agenda.js";
import { chooserView, choose, doneView, isChosen } from "./list/many.js";
import { failuresHeading, lastFailureOf } from "./list/failures.js";
import { hasEnded, lookOf, reminds, wordsOf } from "./texts/words.js";

const OLD_LIST = 10_000;
const MOVING_PAUSE = 10_000;
const FILTERS = ["state", "label", "query", "before", "after"];

start("duetime-task-list", (root, env) => {
  const list = { root, env, phase: "loading", args: {}, rows: [], counts: {}, atLeast: [], failures: false, clashes: [], unread: [], failure: "", error: "", away: false, readings: turns(), adding: false, pages: 1, touched: new Set(), readAt: 0, unchanged: 0 };
  Object.assign(list, {
    draw: () => drawList(list),
    fail: (sentence, away) => failList(list, sentence, away),
    changed: (page) => (list.fixed ? takePage(list, page) : reload(list)),
  });
  return {
    draw: () => drawList(list),
    tick: () => tickList(list),
    wake: () => list.phase === "shown" && canCall(env) && reload(list),
    heard: () => list.phase === "shown" && canCall(env) && reload(list),
    failed: (sentence) => failList(list, sentence),
    input: (args) => (list.args = args),
    result(page) {
      Object.assign(list, { bulk: page.bulk, fixed: Boolean(page.bulk) });
      takePage(list, page);
      if (canCall(env) && Date.now() - Date.parse(page.now) > OLD_LIST) reload(list);
    },
  };
});

function takePage(list, page, after = []) {
  const shown = new Set(after.map(keyOf)); // a row may have moved to this page since
  Object.assign(list, { phase: "shown", pages: after.length ? list.pages + 1 : 1, rows: [...after, ...page.tasks.filter((row) => !shown.has(keyOf(row)))], counts: page.counts, atLeast: page.at_least, failures: page.failures === true, clashes: [...(after.length ? list.clashes : []), ...(page.clashes ?? [])], cursor: page.cursor, error: "" });
  if (page.unread) list.unread = page.unread;
  list.readAt ||= list.env.clock.now();
  drawList(list);
}

/** Take over the pages that are shown, read again; a row that was acted on here, or is open, stays where it is. */
function takeAgain(list, pages) {
  announceOutcomes(list, pages);
  const last = pages.at(-1);
  const rows = pages.flatMap((page) => page.tasks);
  const found = new Set(rows.map(keyOf));
  const stays = (row) => list.opened?.key === keyOf(row) || (list.touched.has(row.id) && !row.expected);
  list.rows.forEach((row, place) => {
    if (stays(row) && !found.has(keyOf(row))) rows.splice(Math.min(place, rows.length), 0, row);
  });
  list.unchanged = JSON.stringify(rows) === JSON.stringify(list.rows) ? list.unchanged + 1 : 0;
  Object.assign(list, { rows, pages: pages.length, counts: last.counts, atLeast: last.at_least, failures: last.failures === true, clashes: pages.flatMap((page) => page.clashes ?? []), cursor: last.cursor, error: "", away: false });
  if (pages[0].unread) list.unread = pages[0].unread;
  drawList(list);
}

/** Which of the tasks that are shown have ended since, for those who do not see it. */
function announceOutcomes(list, pages) {
  const open = new Map(list.rows.filter((row) => !row.expected && !hasEnded(row) && !list.touched.has(row.id)).map((row) => [row.id, row]));
  const now = list.env.clock.now();
  const ended = pages.flatMap((page) => page.tasks).filter((row) => hasEnded(row) && open.has(row.id));
  const said = ended.map((row) => t("announce.outcome", { title: row.title, state: wordsOf(lookOf(row, Date.parse(row.when), now)).word }));
  if (said.length) list.env.announce(listed(said, "unit"));
}

function failList(list, sentence, away = false) {
  list.away = away;
  list.failure = sentence;
  list.error = list.phase === "shown" ? sentence : "";
  if (list.phase !== "shown") list.phase = "failed";
  drawList(list);
}

/** Ask the server again, with the arguments of the call that this list came from, for all pages that are shown. */
function reload(list) {
  if (list.fixed) return undefined; // what one call changed is no list that can be asked for again
  return ask(list, "again", async () => {
    const pages = [await pageOf(list)];
    while (pages.length < list.pages && pages.at(-1).cursor) pages.push(await pageOf(list, pages.at(-1).cursor));
    if (list.readings.waits("again")) return; // something was done since, which these pages do not know
    list.phase = "shown";
    takeAgain(list, pages);
  });
}

/** Add the next page; a second press while it comes is the same wish. */
async function more(list) {
  if (list.adding) return;
  list.adding = true;
  await ask(list, "more", async () => {
    if (!list.cursor) return;
    const page = await pageOf(list, list.cursor);
    takePage(list, page, list.rows);
    list.env.announce(t("list.more", { count: page.tasks.length }));
  });
  list.adding = false;
}

async function pageOf(list, cursor) {
  const page = await list.env.bridge.call("list_tasks", cursor ? { ...list.args, cursor } : list.args);
  list.env.clock.hear(page.now);
  return page;
}

/** Do what asks the server when what asks it already has ended. */
function ask(list, name, work) {
  return list.readings.take(name, async () => {
    try {
      await work();
    } catch (error) {
      failList(list, error.message, error.away);
    } finally {
      list.readAt = list.env.clock.now();
    }
  });
}

function drawList(list) {
  list.root.setAttribute("aria-busy", String(list.phase === "loading"));
  redraw(list.root, () => [h("div", { class: "list" }, insideOf(list))]);
}

function insideOf(list) {
  if (list.phase === "loading") return [h("p", { class: "sr", role: "status" }, t("list.reading")), [0, 1, 2].map(() => h("span", { class: "bone line" }))];
  if (list.phase === "failed") return failedList(list);
  if (list.rows.length === 0) return [errorView(list), emptyView(FILTERS.some((name) => name in list.args), list.failures)];
  const { env } = list;
  return [
    h("header", { class: "top" }, h("h1", {}, t("list.title")), countsView(list.counts, list.atLeast, list.failures)),
    errorView(list), doneView(list), chooserView(list), newsView(list), clashesView(list),
    sectionsOf(list).map(([section, rows]) => sectionView(list, section, rows)),
    canCall(env) ? "" : h("p", { class: "quiet hint" }, t("actions.rows")),
    list.cursor && canCall(env) ? h("div", { class: "bar" }, h("button", { type: "button", class: "button", "data-key": "more-rows", onclick: () => more(list) }, icon("chevron"), t("button.show_more"))) : "",
  ];
}

function sectionsOf({ failures, rows, env }) {
  return failures ? [[failuresHeading(rows), rows]] : agenda(rows, env.clock.now(), env.reader().zone);
}

function failedList(list) {
  return h("div", { class: "empty tone-danger" },
    h("span", { class: "leaf round" }, icon("alert")), h("h1", {}, t("list.failed")),
    h("p", { class: "said", role: "alert" }, list.failure),
    againView(list));
}

function errorView(list) {
  return list.error ? h("div", { class: "notice tone-danger", role: "alert" }, icon("alert"), h("div", {}, h("p", {}, list.error), list.away ? againView(list) : "")) : "";
}

function againView(list) {
  if (!canCall(list.env)) return "";
  return h("button", { type: "button", class: "button", "data-key": "again", onclick: () => reload(list) }, icon("retry"), t("button.try_again"));
}

function newsView(list) {
  if (list.unread.length === 0) return "";
  return h("div", { class: "notice news tone-info" }, icon("inbox"),
    h("ul", { "aria-label": t("list.news") }, list.unread.map((one) => h("li", {}, h("strong", {}, one.title ?? ""), " ", h("span", { class: "quiet" }, one.text === "Approve this run?" ? t("wait.approval") : one.text)))));
}

function clashesView(list) {
  if (list.clashes.length === 0) return "";
  const [reader, now] = [list.env.reader(), list.env.clock.now()];
  return h("div", { class: "notice tone-warning" }, icon("alert"),
    h("ul", { "aria-label": t("list.clashes") }, list.clashes.map((clash) => clashView(clash, list.rows, reader, now))));
}

function sectionView(list, section, rows) {
  return h("section", { class: "group", "aria-label": section },
    h("h2", {}, section, " ", h("span", { class: "quiet" }, number(rows.length))),
    h("ul", {}, rows.map((row) => {
      const opened = list.opened?.key === keyOf(row);
      const checked = isChosen(list, row);
      const press = list.chosen ? checked !== undefined && (() => choose(list, row)) : () => toggle(list, row);
      const line = rowView(row, list.env, opened, canCall(list.env) && press, list.failures, checked);
      return h("li", { class: opened ? "opened" : "", "data-key": `item-${keyOf(row)}` }, line, opened ? placeOf(list.opened.host) : "");
    })));
}

/** Open a task under its row, and close the one that was open. */
function toggle(list, row) {
  if (list.opened?.key === keyOf(row)) {
    list.opened = undefined;
    drawList(list);
    return;
  }
  const host = h("div", { class: "inside" });
  const card = taskCard(host, { ...list.env, changed: (task, reread) => follows(list, task, reread) });
  Object.assign(card, { id: row.id, title: "" });
  list.opened = { key: keyOf(row), host, card };
  card.draw();
  drawList(list);
  card.read();
}

/** An open task changed: its row follows at once, and after an action the counts do too. */
function follows(list, task, reread) {
  const last = (row) => lastFailureOf(task) ?? (list.failures ? row.last_run : undefined);
  list.rows = list.rows.map((row) => (row.id === task.id && !row.expected ? { ...rowOf(task), last_run: last(row) } : row));
  if (!reread) list.touched.add(task.id);
  drawList(list);
  if (!reread) reload(list);
}

function rowOf(task) {
  const { id, title, state, priority, paused, paused_until, damaged, blocked, cancel_requested, delivery } = task;
  const deadline = hasEnded(task) ? undefined : task.deadline?.utc;
  const why = blocked ? task.waits?.find((wait) => wait.kind === "blocked")?.after : undefined;
  return { id, title, state, when: task.when.utc, priority, deadline, paused, paused_until, damaged, blocked, cancel_requested, why, waits: task.waits?.filter(({ kind }) => /^(approval|event|time|pool)/.test(kind)).slice(0, 1), held_until: delivery?.held_until, repeat: task.repeat ? true : undefined, reminder: reminds(task) || undefined };
}

function tickList(list) {
  const now = list.env.clock.now();
  for (const node of list.root.querySelectorAll(".row [data-at]")) node.textContent = relative(Number(node.dataset.at), now, list.env.reader());
  list.opened?.card.tick();
  if (list.phase !== "loading" && !list.readings.busy() && canCall(list.env) && document.visibilityState === "visible" && now - list.readAt >= pauseOf(list, now)) reload(list);
}

/** How long to wait before the list is read again: little when something in it is due or runs, else longer. */
function pauseOf(list, now) {
  if (list.away) return MOVING_PAUSE;
  if (list.phase !== "shown") return quietPause(list);
  const moving = list.rows.some((row) => !hasEnded(row) && !row.paused && Date.parse(row.when) <= now);
  return moving ? MOVING_PAUSE : quietPause(list);
}
