/* How often a card reads what it shows: often while something is under way, seldom where nothing changes. */

import { canCall } from "../page/host.js";
import { hasEnded, isStored } from "../texts/words.js";

const SOON = 2_000;
const LATER = 15_000;
const LONG_AGO = 60_000;
const QUIET = 60_000;
const AWAY_PAUSE = 10_000;
const FRESHLY = 3_600_000;

/** A task that is due or runs changes by itself: often read while that is new, seldom later. Others are changed elsewhere. */
export function isOutdated(card, now) {
  const { task, env, readAt } = card;
  if (!isStored(task) || !canCall(env)) return false;
  const pause = pauseBeforeReading(task, now);
  return now - readAt >= (card.away ? AWAY_PAUSE : pause === QUIET ? quietPause(card) : pause);
}

/** The pause before what stays as it is gets read again: longer where it did not change, up to four times as long. */
export function quietPause({ unchanged }) {
  return QUIET * 2 ** Math.min(unchanged, 2);
}

function pauseBeforeReading(task, now) {
  const late = now - Date.parse(task.when.utc);
  if (hasEnded(task)) return now - Date.parse(task.last_run?.ended ?? task.when.utc) < FRESHLY ? QUIET : Infinity;
  if ((task.paused && task.state !== "running") || late < 0) return QUIET;
  return late < LONG_AGO ? SOON : LATER;
}
