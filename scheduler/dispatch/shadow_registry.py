"""The shadow of the policy: set, compared with what was recorded, removed. It changes nothing that runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.remedies import SetShadow
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, OrderPolicy, differences, read_policy, spec_of
from duetime.scheduler.rules.policies.shadow import ShadowDifference, ShadowPolicy, compare_policies
from duetime.scheduler.store import Store

MAX_DECISIONS_COMPARED: Final = 2_000
"""Recorded decisions with which a shadow is compared: the newest ones."""


class NoShadow(DuetimeError):
    """There is no shadow policy."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__(
            "there is no shadow policy: one that is compared with what was decided, and changes nothing.",
            remedy=SetShadow(),
        )


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """The shadow policy compared with the policy in force: a line for each number that differs, and its choices."""

    shadow: ShadowPolicy
    in_force: int
    changes: tuple[str, ...]
    switch_on: Mapping[str, Any]
    """The argument of `PolicyRegistry.set` that puts it in force."""
    difference: ShadowDifference


class ShadowRegistry:
    """Keeps the shadow of an installation; `in_force` returns the newest version of the policy."""

    def __init__(self, store: Store, in_force: Callable[[], tuple[int, OrderPolicy]]) -> None:
        self._store = store
        self._in_force = in_force

    def set(self, given: Mapping[str, Any], *, by: Principal = LOCAL, reason: str | None = None) -> ShadowReport:
        """Set a shadow: the policy in force with what `given` names. Raises InvalidArgument(s) as a change does."""
        _, policy = self._in_force()
        return self._set(read_policy(given, policy), by, reason)

    def set_version(self, version: int, *, by: Principal = LOCAL, reason: str | None = None) -> ShadowReport:
        """Set a version of the policy as the shadow, 0 for the default; raises InvalidArgument."""
        found = self._store.policies.get(version) if version else None
        if version and found is None:
            newest = self._store.policies.version()
            raise InvalidArgument("version", f"no version {version}", accepted=f"0 to {newest}", example=str(newest))
        return self._set(read_policy(found.content) if found else DEFAULT_POLICY, by, reason)

    def remove(self, *, by: Principal = LOCAL, reason: str | None = None) -> None:
        """Remove the shadow; raises NoShadow."""
        act = AuditEntry.by(by, AuditKind.SHADOW_REMOVED, "shadow policy", reason=reason)
        if not self._store.policies.shadow.remove(act):
            raise NoShadow

    def report(self) -> ShadowReport:
        """Compare the shadow with the newest decisions under the policy in force; raises NoShadow."""
        shadow = self._store.policies.shadow.get()
        if shadow is None:
            raise NoShadow
        return self._report(shadow)

    def _set(self, policy: OrderPolicy, by: Principal, reason: str | None) -> ShadowReport:
        in_force = self._in_force()[1]
        changes = list(differences(in_force, policy))
        if not changes:
            problem, example = "these numbers are in force already", _another(in_force)
            raise InvalidArgument("policy", problem, accepted="others", example=example)
        act = AuditEntry.by(by, AuditKind.SHADOW_SET, "shadow policy", reason=reason, detail={"changes": [*changes]})
        return self._report(self._store.policies.shadow.set(spec_of(policy), act))

    def _report(self, shadow: ShadowPolicy) -> ShadowReport:
        (version, in_force), policy = self._in_force(), read_policy(shadow.content)
        newest = self._store.decisions.page(None, limit=MAX_DECISIONS_COMPARED).decisions
        comparable = [each for each in newest if each.look.policy == version]
        return ShadowReport(
            shadow,
            version,
            tuple(differences(in_force, policy)),
            _changes(spec_of(in_force), spec_of(policy)),
            compare_policies(comparable, in_force, policy),
        )


def _another(in_force: OrderPolicy) -> str:
    """Return a policy that differs from the one in force, as every surface takes it."""
    patiences = ({"patience": {"low": words}} for words in ("20 minutes", "40 minutes"))
    return next(json.dumps(each) for each in patiences if any(differences(in_force, read_policy(each, in_force))))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts and numbers of a policy that differ from another one."""
    found: dict[str, Any] = {}
    for part in {**before, **after}:
        old, new = before.get(part, {}), after.get(part)
        changed = {tier: number for tier, number in (new or {}).items() if old.get(tier) != number}
        if new is None or changed:
            found[part] = changed or None
    return found
