/* The task card: one task, as the tools answered it. */

import { start } from "./page/app.js";
import { canCall } from "./page/host.js";
import { taskCard } from "./task/card.js";
import { isStored } from "./texts/words.js";

const OLD = 10_000;

start("duetime-task-card", (root, env) => {
  const card = taskCard(root, env);
  return {
    draw: card.draw,
    tick: card.tick,
    wake: () => card.task && isStored(card.task) && canCall(env) && card.read(),
    heard: ({ id, revision }) => id === card.id && revision > (card.task?.revision ?? 0) && card.read(),
    failed: card.fail,
    input(args) {
      card.id ??= args.task_id;
      card.title = card.task ? "" : String(args.title ?? "");
      card.draw();
    },
    result(task) {
      card.id = task.id;
      card.show(task);
      if (isStored(task) && canCall(env) && Date.now() - Date.parse(task.now) > OLD) card.read();
    },
  };
});
