/* Calls that must not overtake each other: what a person asks for waits its turn and is never dropped. */

/**
 * A row of works, each begun when the one before it has ended. `take` gives the one of that name that
 * has not begun yet, for it will see all that another one would.
 */
export function turns() {
  const waiting = new Map();
  let last = Promise.resolve();
  let left = 0;
  return { busy: () => left > 0, waits: (name) => waiting.has(name), take };

  function take(name, work) {
    if (!waiting.has(name)) {
      left += 1;
      last = last.catch(() => undefined).then(() => begin(name, work));
      waiting.set(name, last);
    }
    return waiting.get(name);
  }

  async function begin(name, work) {
    waiting.delete(name);
    await work().finally(() => (left -= 1));
  }
}
