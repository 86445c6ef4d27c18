/* The panel that edits a task in place: title, message, recurrence, priority and deadline; only what was changed is sent. */

import { actButton } from "./actions.js";
import { find, h } from "../page/dom.js";
import { named, t } from "../texts/language.js";
import { previewView } from "./preview.js";

const TIERS = ["critical", "high", "normal", "low", "background"];
const MAX_TITLE = 200;
const CUT = "…";

/** What the fields of a task hold before anything is typed. */
function valuesOf({ title, message = "", repeat, priority = "normal", deadline }) {
  const span = deadline?.after ? `within ${deadline.after}` : "";
  return { title, message, repeat: repeat?.text ?? "", priority, deadline: repeat ? span : (deadline?.local ?? "").slice(0, 16) };
}

/** The arguments of a change; an emptied field takes the thing away, and a reminder without a message says its title. */
function argsOf({ task, draft = {} }) {
  const was = valuesOf(task);
  const changed = Object.fromEntries(Object.entries(draft).filter(([name, text]) => text.trim() !== was[name]));
  const { message, repeat, deadline, ...rest } = changed;
  const retold = task.action === "reminder" && !was.message;
  return {
    ...rest,
    ...(message === undefined && !(retold && rest.title) ? {} : message?.trim() ? { payload: { message } } : { remove: ["payload"] }),
    ...(repeat === undefined ? {} : { repeat: repeat.trim() || "never" }),
    ...(deadline === undefined ? {} : { deadline: deadline.trim() || "none" }),
  };
}

export function editPanel(card) {
  const { task } = card;
  const values = { ...valuesOf(task), ...card.draft };
  const args = () => ({ ...argsOf(card), revision: card.task.revision });
  const saved = (event) => {
    if (!find(event.target.closest(".edit"), "edit-title").reportValidity()) return;
    if (Object.keys(argsOf(card)).length === 0) card.open("edit");
    else card.act("edit", "reschedule_task", args());
  };
  const field = fieldOf(card, values, args, saved);
  return h("div", { class: "change edit" },
    field("title", t("field.title"), { required: true, maxlength: MAX_TITLE, dir: "auto" }),
    task.action === "reminder" && !values.message.endsWith(CUT) ? field("message", t("edit.message"), { rows: 2, dir: "auto" }, "textarea") : "",
    field("repeat", t("field.repeat"), { placeholder: t("edit.example"), dir: "auto" }),
    field("priority", t("field.priority"), {}, "select", TIERS.map((tier) => h("option", { value: tier, selected: tier === values.priority }, named("tier", tier)))),
    field("deadline", t("field.deadline"), task.repeat ? { dir: "auto" } : { type: "datetime-local" }),
    previewView(card),
    task.repeat ? h("p", { class: "quiet" }, t("edit.following")) : "",
    h("div", { class: "bar" }, actButton(card, "save", "check", t("button.save"), saved, "strong"), actButton(card, "keep", "undo", t("button.keep"), () => card.open("edit"))));
}

/** Makes labelled fields; Enter saves, in a text of several lines with Control or Command. */
function fieldOf(card, values, args, saved) {
  return (name, label, attributes, tag = "input", inside = tag === "textarea" ? values[name] : "") => {
    const enter = (event) => event.key === "Enter" && (tag === "input" || event.ctrlKey || event.metaKey) && saved(event);
    return h("label", { class: "field" }, h("span", {}, label), h(tag, {
      ...attributes, "data-key": `edit-${name}`, value: tag === "input" ? values[name] : undefined,
      oninput: (event) => card.edit(name, event.target.value, args), onkeydown: enter,
    }, inside));
  };
}
