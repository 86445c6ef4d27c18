"""Pools: what limits work now, who holds it, and how much there is. Tenants share them, so operators alone see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.queue import PoolUse
from duetime.scheduler.rules.limits.admission import capacity
from duetime.scheduler.rules.limits.pool import Pool, after_removal
from duetime.scheduler.rules.limits.pool_spec import EXAMPLES, spec_of
from duetime.scheduler.store.pools import PoolNotFound, StalePool
from duetime.scheduler.task import State
from duetime.server.admin.answers import Answer, Moved, Page, get, post
from duetime.server.admin.export import ExportRow, exported, wanted_format
from duetime.server.admin.failures import Correction, StalePage, problem, revision_shown
from duetime.server.admin.page_request import Visit
from duetime.tools.arguments.strict_json import strict_json

MAX_HOLDERS_READ = 500
"""Running runs among which the holders of a pool are found."""

POOL_COLUMNS = (
    *("pool", "declaration", "state", "until", "capacity", "used", "spent", "free", "waiting", "slowed_to"),
)
OWN_PREFIX = "duetime:"
"""Begins the names of Duetime's own pools, which nobody declares."""


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool: its declaration, None for one made from a template, and its use.

    The use is None while no process runs tasks, and while it is that of an earlier limit: then it `is_changing`.
    `revision` is that of the declaration, where a form is made from it.
    """

    name: str
    pool: Pool | None
    use: PoolUse | None
    revision: int = 0
    is_changing: bool = False

    @classmethod
    def of(cls, visit: Visit, name: str, pool: Pool | None, use: PoolUse | None, revision: int = 0) -> PoolLine:
        now = visit.now.timestamp() * 1000
        if pool and use and use.capacity != capacity(pool.limits(visit.now), now):
            return cls(name, pool, None, revision, is_changing=True)
        return cls(name, pool, use, revision)

    @property
    def until(self) -> datetime | None:
        """When its state ends by itself."""
        ends = self.use.until if self.use else None
        return datetime.fromtimestamp(ends / 1000, UTC) if ends is not None else None

    @property
    def spec(self) -> str:
        """Its declaration as an administrator edits it."""
        return json.dumps(spec_of(self.pool), indent=2) if self.pool else ""


@dataclass(frozen=True, slots=True)
class HolderLine:
    """A running run and the units that it holds of one pool."""

    run: RunSummary
    units: int


def pools(visit: Visit) -> Answer:
    """List every pool, or send the list as a file."""
    uses = _uses(visit)
    found = [line for line in _lines(visit, uses) if not line.name.startswith(OWN_PREFIX) or _busy(line.use)]
    if file_format := wanted_format(visit):
        return exported(file_format, "pools", POOL_COLUMNS, [_row(line) for line in found])
    values = {"lines": found, "silent": uses is None, "examples": EXAMPLES}
    return Page("pages/pools.html", "Pools", {**values, "live": True})


def _row(line: PoolLine) -> ExportRow:
    pool, use = line.pool, line.use
    return {
        "pool": line.name,
        "declaration": spec_of(pool) if pool else None,
        "state": use.state if use else None,
        "until": line.until,
        "capacity": use.capacity if use else pool.capacity if pool else None,
        "used": use.used if use else None,
        "spent": use.spent if use else None,
        "free": use.free if use else None,
        "waiting": use.parked if use else None,
        "slowed_to": use.factor if use else None,
    }


def pool(visit: Visit) -> Page:
    """Show one pool, and who holds it."""
    name = visit.parts["name"]
    declared, use = visit.app.registry.get(name), (_uses(visit) or {}).get(name)
    if declared is None and use is None:
        raise PoolNotFound(name)
    given = (declared.pool, use, declared.revision) if declared else (None, use)
    line = PoolLine.of(visit, name, *given)
    values = {"line": line, "after_removal": after_removal(name), "holders": _holders(visit, name)}
    return Page("pages/pool.html", name, {**values, "live": True})


def _uses(visit: Visit) -> Mapping[str, PoolUse] | None:
    stats = visit.app.remote_queue.stats()
    return stats.pools if stats is not None else None


def _lines(visit: Visit, uses: Mapping[str, PoolUse] | None) -> list[PoolLine]:
    declared, used = visit.app.registry.read(), uses or {}
    return [PoolLine.of(visit, name, declared.get(name), used.get(name)) for name in sorted({*declared, *used})]


def _busy(use: PoolUse | None) -> bool:
    return use is not None and bool(use.used or use.parked)


def _holders(visit: Visit, name: str) -> list[HolderLine]:
    """Return the running runs that hold units of a pool, the longest running first."""
    held = {run.run_id: run.reserved.get(name, 0) for run in visit.store.claims.running(limit=MAX_HOLDERS_READ)}
    page = visit.store.run_history.page(None, RunFilter(states=(State.RUNNING,)), limit=MAX_HOLDERS_READ)
    found = [HolderLine(run, held[run.id]) for run in page.runs if held.get(run.id)]
    return sorted(found, key=lambda holder: holder.run.started_at or visit.now)


def set_pool(visit: Visit) -> Moved:
    """Change a pool, if it still is what the form was made from."""
    return _set(visit, visit.parts["name"])


def declare(visit: Visit) -> Answer:
    """Create a pool; one that is there already is not changed."""
    name = visit.form.get("name", "").strip()
    there = visit.app.registry.get(name)
    if there is None:
        return _set(visit, name)
    accepted = "a name that no pool has; nothing was done"
    error = InvalidArgument("name", f"{name!r} is a pool already ({there.pool.text_with_price()})", accepted=accepted)
    return problem(error, Correction.of(error, visit, "POST"), visit.url("/pools"), visit.url(f"/pools/{name}"))


def _set(visit: Visit, name: str) -> Moved:
    spec = _spec(visit.form.get("spec", ""))
    with _unchanged(visit, name):
        made = visit.app.registry.set(name, spec, **_given(visit)).pool
    visit.app.runner.wake()
    return Moved(visit.url(f"/pools/{name}"), f"{name}: {made.kind}, {made.text_with_price()}.")


def remove_pool(visit: Visit) -> Moved:
    """Remove a pool, if it still is what the form was made from."""
    name = visit.parts["name"]
    with _unchanged(visit, name):
        visit.app.registry.remove(name, **_given(visit))
    visit.app.runner.wake()
    return Moved(visit.url("/pools"), f"Removed {name}. {after_removal(name)}")


def _given(visit: Visit) -> dict[str, Any]:
    reason = visit.form.get("reason", "").strip() or None
    return {"by": visit.principal, "reason": reason, "based_on": revision_shown(visit) or 0}


@contextmanager
def _unchanged(visit: Visit, name: str) -> Iterator[None]:
    """Run a change of a pool. Raises StalePage, with the pool as it is now, where that has changed since the form."""
    try:
        yield
    except StalePool:
        now = visit.app.registry.get(name)
        text = f"is {now.pool.kind}, {now.pool.text_with_price()}" if now else "is declared no longer"
        sentence = f"{name[:100]!r} was changed since this page was opened: it {text}."
        raise StalePage(sentence, now.revision if now else 0) from None


def _spec(text: str) -> Mapping[str, Any]:
    example = next(iter(EXAMPLES.values()))
    try:
        found = strict_json(text)
    except ValueError as wrong:
        raise InvalidArgument(
            "declaration", f"it is not JSON: {wrong}", accepted="one object", example=example
        ) from None
    if not isinstance(found, dict):
        raise InvalidArgument("declaration", "it is not an object", accepted="one object", example=example)
    return found


POOL_ROUTES = (
    get("/pools", pools, operators=True, query={"format"}),
    post("/pools", declare, operators=True),
    get("/pools/{name:path}", pool, operators=True),
    post("/pools/{name:path}/remove", remove_pool, operators=True),
    post("/pools/{name:path}", set_pool, operators=True),
)
