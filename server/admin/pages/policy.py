"""The policy: the numbers that decide the order of runs, their history, a change that is tried first, a way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from duetime.scheduler.dispatch.policy_registry import PolicyChange, StalePolicy
from duetime.scheduler.dispatch.shadow_registry import NoShadow, ShadowReport
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.policies.policy import (
    DEFAULT_POLICY,
    OrderPolicy,
    PolicyVersion,
    differences,
    read_policy,
    spec_of,
)
from duetime.scheduler.task import Tier
from duetime.server.admin.answers import Answer, Moved, Page, get, post
from duetime.server.admin.failures import SHOWN, StalePage, revision_shown
from duetime.server.admin.page_request import Visit
from duetime.server.words.json_examples import as_assignments, with_examples
from duetime.tools.admin.policy_rows import number_or_text
from duetime.tools.admin.shadow_rows import report_json

_PARTS: Final = ("patience", "value", "shares", "ceilings", "headroom")
TRY: Final = "try"
MAKE: Final = "make"
COMPARE: Final = "compare"


def policy(visit: Visit) -> Page:
    """Show the policy in force and its history."""
    return _page(visit)


def _page(visit: Visit, tried: PolicyChange | None = None, reason: str = "", back_to: int | None = None) -> Page:
    registry = visit.app.registry.policies
    found, versions = registry.refresh(), registry.history()
    given = _given(visit) if tried is not None and back_to is None else {}
    values = {
        "now": found,
        "newest": versions[0] if versions else None,
        "tiers": [*Tier],
        "numbers": spec_of(found.policy),
        "given": given,
        "lines": _lines(versions),
        "tried": tried,
        "reason": reason,
        "back_to": back_to,
        "shadow": _shadow(visit),
    }
    return Page("pages/policy.html", "Policy", values)


def _lines(versions: Sequence[PolicyVersion]) -> list[tuple[PolicyVersion, tuple[str, ...]]]:
    """Return each version with what it changed of the one before; a version that cannot be read changed nothing."""
    return [(each, _changed(before, each)) for each, before in zip_longest(versions, versions[1:]) if each]


def _changed(before: PolicyVersion | None, after: PolicyVersion) -> tuple[str, ...]:
    if before is None and after.version > 1:
        return ()
    try:
        return tuple(differences(read_policy(before.content) if before else DEFAULT_POLICY, read_policy(after.content)))
    except InvalidArgument:
        return ("its numbers cannot be read by this version of Duetime",)


def change(visit: Visit) -> Answer:
    """Try a change, make it, or compare it as a shadow."""
    if visit.form.get("do") == COMPARE:
        return _compare(visit)
    only_tried, reason = visit.form.get("do") == TRY, visit.form.get("reason", "").strip()
    based_on = None if only_tried else _unchanged(visit)
    with with_examples(as_assignments):
        made = visit.app.registry.policies.set(
            _given(visit), by=visit.principal, reason=reason or None, dry_run=only_tried, based_on=based_on
        )
    return _page(visit, made, reason) if only_tried else _done(visit, made)


def _unchanged(visit: Visit) -> int:
    """Return the version in force. Raises StalePage where it has other values of what the form changes."""
    now = visit.app.registry.policies.refresh()
    shown, current = _texts(_shown(visit)), _texts(now.policy)
    given = [f"{part}.{tier}" for part, of in _given(visit).items() for tier in of]
    changed = [name for name in given if shown.get(name) != current.get(name)]
    if changed:
        values = "; ".join(f"{name} is {current.get(name, 'that of the settings')}" for name in changed)
        sentence = f"The policy was changed since this page was opened: by version {now.version} {values}."
        raise StalePage(sentence, now.version, {*given, "reason"})
    return now.version


def roll_back(visit: Visit) -> Answer:
    """Try to return to an earlier version, or do so."""
    only_tried, reason = visit.form.get("do") == TRY, visit.form.get("reason", "").strip()
    version = _version(visit.form.get("version", ""))
    try:
        made = visit.app.registry.policies.roll_back(
            version, by=visit.principal, reason=reason or None, dry_run=only_tried, based_on=revision_shown(visit)
        )
    except StalePolicy as stale:
        raise StalePage(f"Version {stale.current} is in force since this page was opened.", stale.current) from None
    return _page(visit, made, reason, version) if only_tried else _done(visit, made)


def _compare(visit: Visit) -> Moved:
    reason = visit.form.get("reason", "").strip()
    with with_examples(as_assignments):
        visit.app.registry.policies.shadow.set(_given(visit), by=visit.principal, reason=reason or None)
    return Moved(visit.url("/policy"), "The shadow is set. It changes nothing that runs.")


def _shadow(visit: Visit) -> dict[str, Any] | None:
    """Return the shadow and what it would have chosen, None without one."""
    try:
        report = visit.app.registry.policies.shadow.report()
    except NoShadow:
        return None
    return {**report_json(report), "mark": mark_of(report)}


def mark_of(report: ShadowReport) -> str:
    """Return a text that identifies a shadow together with the version of the policy that it is compared with."""
    return f"{report.shadow.at.isoformat()} {report.in_force}"


def end_shadow(visit: Visit) -> Moved:
    """End the shadow, or put it in force and end it."""
    policies, notice = visit.app.registry.policies, ""
    report = policies.shadow.report()
    if visit.form.get("shadow", "") not in {"", mark_of(report)}:
        changes = "; ".join(report.changes) or "nothing"
        sentence = f"Another shadow or policy was set since this page was opened. The shadow changes {changes} now."
        raise StalePage(sentence, "")
    if visit.form.get("do") == MAKE:
        made = policies.set(report.switch_on, by=visit.principal, reason=report.shadow.reason, based_on=report.in_force)
        notice = _done(visit, made).notice
    policies.shadow.remove(by=visit.principal)
    return Moved(visit.url("/policy"), f"{notice} The shadow has ended.".strip())


def _done(visit: Visit, change: PolicyChange) -> Moved:
    if change.version is None:
        return Moved(visit.url("/policy"), "Nothing changed: these numbers are in force.")
    visit.app.runner.wake()
    return Moved(visit.url("/policy"), f"Version {change.version} is in force: {'; '.join(change.differences)}.")


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):  # noqa: PLR2004 - digits of an integer column
        raise InvalidArgument(
            "version", f"{text[:60]!r} is not a version", accepted="a number of the history, or 0", example="0"
        )
    return int(text)


def _given(visit: Visit) -> Mapping[str, Any]:
    """Return the numbers of the form that differ from those it showed; an empty field changes nothing.

    Changes that others made since the page was opened stay.
    """
    shown = _texts(_shown(visit))
    found: dict[str, dict[str, Any]] = {}
    for part in _PARTS:
        for tier in Tier:
            text = visit.form.get(f"{part}.{tier}", "").strip()
            if text and text != shown.get(f"{part}.{tier}"):
                found.setdefault(part, {})[tier.value] = number_or_text(text)
    return found


def _shown(visit: Visit) -> OrderPolicy:
    """Return the policy that the form was made from."""
    version = _version(visit.form.get(SHOWN, ""))
    kept = visit.store.policies.get(version) if version else None
    return read_policy(kept.content) if kept else DEFAULT_POLICY


def _texts(found: OrderPolicy) -> Mapping[str, str]:
    return {f"{part}.{tier}": f"{number:.12g}" for part, of in spec_of(found).items() for tier, number in _items(of)}


def _items(part: Any) -> Sequence[tuple[str, float]]:
    return list(part.items())


POLICY_ROUTES = (
    get("/policy", policy, operators=True),
    post("/policy", change, operators=True),
    post("/policy/shadow", end_shadow, operators=True),
    post("/policy/roll-back", roll_back, operators=True),
)
