"""The policy of an installation: kept in the database as versions, used by every process within seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.dispatch.shadow_registry import ShadowRegistry
from duetime.scheduler.errors import DuetimeError, InvalidArgument, StoreUnavailable
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.rules.headroom import Headroom, HeadroomRule
from duetime.scheduler.rules.policies.policy import (
    DEFAULT_POLICY,
    OrderPolicy,
    PolicyVersion,
    differences,
    read_policy,
    spec_of,
)
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

MAX_VERSIONS_SHOWN: Final = 50
MAX_POLICY_TRIES: Final = 5
"""Tries of a change while others change the policy at the same moment."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """A policy and its version; version 0 is the default, which nobody has changed."""

    version: int = 0
    policy: OrderPolicy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A change of the policy, done or (`version` of None) only tried: a line for each number that differs."""

    policy: OrderPolicy
    differences: tuple[str, ...]
    version: int | None = None


class StalePolicy(DuetimeError):
    """Another version of the policy is in force than the one that the change is based on; nothing was changed."""

    code = "stale_revision"

    def __init__(self, given: int, current: int) -> None:
        self.current = current
        text = f"version {current} of the policy is in force, not {given}; nothing was changed. Read it and repeat."
        super().__init__(text, argument="revision")


class PolicyRegistry:
    """Reads and changes the policy. Thread-safe. A process that dispatches calls `refresh`, others read it once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: PolicyInForce | None = None
        self._unreadable = 0
        self.shadow = ShadowRegistry(store, self._newest)

    def known(self) -> PolicyInForce:
        """Return the policy in force, as this process holds it; usually without a query."""
        return self._known or self.refresh()

    def policy(self) -> OrderPolicy:
        return self.known().policy

    def refresh(self) -> PolicyInForce:
        """Read the newest version; while it cannot be read, the last known one stays in force."""
        with self._lock:
            try:
                if self._known is None or self._store.policies.version() != self._known.version:
                    self._known = self._read() or self._known
            except StoreUnavailable:
                log.debug("the policy cannot be read now")
            return self._known or PolicyInForce()

    def set(
        self,
        given: Mapping[str, Any],
        *,
        by: Principal = LOCAL,
        reason: str | None = None,
        dry_run: bool = False,
        based_on: int | None = None,
    ) -> PolicyChange:
        """Change what `given` names; everything else stays. Raises InvalidArgument(s) for what is not accepted.

        Raises StalePolicy unless the version in force is the one that the change is `based_on`, where it names one.
        """

        def change(now: PolicyInForce) -> OrderPolicy:
            return read_policy(given, now.policy)

        act = AuditEntry.by(by, AuditKind.POLICY_SET, reason=reason)
        return self._change(change, act, dry_run=dry_run, based_on=based_on)

    def roll_back(
        self,
        version: int,
        *,
        by: Principal = LOCAL,
        reason: str | None = None,
        dry_run: bool = False,
        based_on: int | None = None,
    ) -> PolicyChange:
        """Make a new version with the content of an earlier one, 0 for the default; raises as `set` does."""
        found = self._store.policies.get(version) if version else PolicyVersion(0, {}, self._store.now(), "")
        if found is None:
            newest = self._store.policies.version()
            raise InvalidArgument("version", f"no version {version}", accepted=f"0 to {newest}", example=str(newest))
        policy = read_policy(found.content)
        act = AuditEntry.by(by, AuditKind.POLICY_RESTORED, reason=reason)
        return self._change(lambda _: policy, act, dry_run=dry_run, based_on=based_on)

    def history(self, limit: int = MAX_VERSIONS_SHOWN) -> Sequence[PolicyVersion]:
        """Return the newest versions, the one in force first."""
        return self._store.policies.newest(limit)

    def headroom(self, settings: HeadroomRule) -> PolicyHeadroom:
        """Return the headroom of a worker: that of the policy, else that of its settings."""
        return PolicyHeadroom(self.policy, settings)

    def publish(self, queue: DispatchQueue) -> None:
        """Send the shares in force to the queue, which keeps the newest version that any process sent."""
        found = self.refresh()
        if found.version:
            queue.set_shares(found.policy.shares, found.version)

    def _change(
        self, change: Callable[[PolicyInForce], OrderPolicy], act: AuditEntry, *, dry_run: bool, based_on: int | None
    ) -> PolicyChange:
        for _ in range(MAX_POLICY_TRIES):
            now = self._read() or PolicyInForce()
            if based_on is not None and based_on != now.version:
                raise StalePolicy(based_on, now.version)
            policy = change(now)
            found = PolicyChange(policy, tuple(differences(now.policy, policy)))
            if dry_run or not found.differences:
                return found
            detail: dict[str, Json] = {"changes": list(found.differences)}
            made = self._store.policies.add(
                spec_of(policy),
                replace(act, subject=f"policy {now.version + 1}", detail=detail),
                based_on=now.version,
            )
            if made is not None:
                self.refresh()
                return PolicyChange(policy, found.differences, made.version)
        raise StoreUnavailable("Others changed the policy at this moment. Nothing was stored; try again.")

    def _newest(self) -> tuple[int, OrderPolicy]:
        found = self.refresh()
        return found.version, found.policy

    def _read(self) -> PolicyInForce | None:
        """Return the newest version that this process can read; one of a newer Duetime is passed over."""
        for found in self._store.policies.newest(MAX_VERSIONS_SHOWN):
            try:
                return PolicyInForce(found.version, read_policy(found.content))
            except Exception as error:  # noqa: BLE001 - a version that cannot be read must not stop the dispatch
                if found.version != self._unreadable:
                    log.error("cannot read version %d of the policy: %s", found.version, error)  # noqa: TRY400 - no defect
                self._unreadable = found.version
        return PolicyInForce()


@dataclass(frozen=True, slots=True)
class PolicyHeadroom:
    """The headroom of one worker, by the policy of the moment."""

    policy: Callable[[], OrderPolicy]
    settings: HeadroomRule

    def of(self, threads: int) -> Headroom:
        return (self.policy().headroom or self.settings).of(threads)
