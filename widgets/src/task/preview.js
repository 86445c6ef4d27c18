/* What would come of a change, as the server answers before it is made. */

import { h } from "../page/dom.js";
import { moment, placed } from "../texts/format.js";
import { t } from "../texts/language.js";

/** The next occurrences after the change, or why it cannot be made. */
export function previewView({ tried, env, task, error }) {
  if (!tried) return "";
  if (tried.error) return tried.error === error ? "" : h("p", { class: "quiet", role: "status" }, tried.error);
  if (!tried.repeat) return "";
  const shown = (tried.repeat.next ?? []).map((text) => placed(Date.parse(text), text, task.when.timezone, env.reader()));
  return h("p", { class: "quiet", role: "status" }, t("change.preview", { times: shown.map(({ ms, reader }) => moment(ms, reader, env.clock.now())).join("; ") }));
}
