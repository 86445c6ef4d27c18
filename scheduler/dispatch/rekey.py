"""New keys for ready runs: when the learned estimate of an action or the policy has changed, runs move in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.rules.estimates import ActionKey
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.store import Store

MAX_NEW_KEYS = 1_000
"""Runs per look that get a new key; the next look continues after them."""

MAX_POLICY_KEYS = 20_000
"""Runs per look that get a new key after a change of the policy; the next step continues after them."""

MIN_ESTIMATE_MOVE = timedelta(seconds=1)
MIN_ESTIMATE_MOVE_DIVISOR = 4
"""An estimate has changed when it differs by more than a fourth, and by a second at least."""


class NewKeys:
    """Compares estimates with those in the current keys, which at the start are the declared ones.

    The key of a run with an estimate of the caller does not depend on them.
    """

    def __init__(self, store: Store, queue: DispatchQueue, placement: Placement) -> None:
        self._store = store
        self._queue = queue
        self._placement = placement
        self._keyed_p90: dict[ActionKey, timedelta] = {}
        self._current_p90: dict[ActionKey, timedelta] = {}
        self._resume_after: dict[ActionKey, str] = {}
        self._unfinished: set[ActionKey] = set()
        self._keys_left = MAX_NEW_KEYS
        self._policy = self._next_policy = DEFAULT_POLICY
        self._policy_resume_after = ""
        self._policy_keys_left = MAX_POLICY_KEYS

    def has_new_policy(self) -> bool:
        """Whether the patience or the values differ from those of the current keys."""
        now = self._placement.policy()
        return (now.patience, now.value) != (self._policy.patience, self._policy.value)

    def begin(self) -> None:
        """Begin a look at all ready runs, by id."""
        self._current_p90, self._unfinished, self._keys_left = {}, set(), MAX_NEW_KEYS
        if self._next_policy != self._placement.policy():
            self._next_policy, self._policy_resume_after = self._placement.policy(), ""
        self._policy_keys_left = MAX_POLICY_KEYS

    def update(self, runs: Iterable[ReadyRun]) -> None:
        """Give a new key to runs whose action takes longer or shorter than their key assumed, or to all of them.

        The caller has put them into the queue again, which moved those that go by their deadline only now, or no more.
        """
        runs = list(runs)
        if self.has_new_policy():
            self._follow_policy(runs)
        for run in runs:
            if run.waiters:  # another process may have changed what waits for it
                self._queue.rescore(run.run_id, self._placement.key(run))
        drops: dict[str, datetime] = {}
        for run in runs:
            if run.estimate is not None or not self._takes_new_key(run):
                continue
            self._queue.rescore(run.run_id, self._placement.key(run))
            if (drop_at := self._placement.drop_at(run)) is not None:
                drops[run.run_id] = drop_at
        if drops:
            self._store.claims.redate(drops)

    def end(self) -> None:
        """Store the estimates and the policy that the keys now use; forget actions that no run waits for."""
        if self._policy_keys_left > 0:
            self._policy, self._policy_resume_after = self._next_policy, ""
        for action in self._current_p90.keys() - self._unfinished:
            if self._has_moved(action):
                self._keyed_p90[action] = self._current_p90[action]
            self._resume_after.pop(action, None)
        self._keyed_p90 = {action: p90 for action, p90 in self._keyed_p90.items() if action in self._current_p90}
        self._resume_after = {
            action: run_id for action, run_id in self._resume_after.items() if action in self._current_p90
        }

    def _follow_policy(self, runs: Sequence[ReadyRun]) -> None:
        following = [run for run in runs if run.run_id > self._policy_resume_after][: self._policy_keys_left]
        for run in following:
            self._queue.rescore(run.run_id, self._placement.key(run))
        self._policy_keys_left -= len(following)
        if following:
            self._policy_resume_after = following[-1].run_id

    def _takes_new_key(self, run: ReadyRun) -> bool:
        action = (run.tenant, run.action)
        if action not in self._current_p90:
            self._current_p90[action] = self._placement.learned_p90(*action)
        if not self._has_moved(action) or run.run_id <= self._resume_after.get(action, ""):
            return False
        if self._keys_left == 0:
            self._unfinished.add(action)
            return False
        self._keys_left -= 1
        self._resume_after[action] = run.run_id
        return True

    def _has_moved(self, action: ActionKey) -> bool:
        before = self._keyed_p90.setdefault(action, self._placement.declared_p90(action[1]))
        return abs(self._current_p90[action] - before) > max(before / MIN_ESTIMATE_MOVE_DIVISOR, MIN_ESTIMATE_MOVE)
