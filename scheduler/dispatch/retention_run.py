"""One run of retention that somebody asks for: counted, or done at once and for as long as the caller has time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.dispatch.retention import RETENTION_ORDER, Sweep
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.runtime.notices import RowsSwept
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json

KEYS_PER_BATCH = 500
"""Idempotency keys that one transaction examines."""


@dataclass(frozen=True, slots=True)
class RetentionRun:
    """The rows that a run deleted, or would delete, by kind of rule and table.

    `longest` is how many seconds the slowest batch took. Unless it is `complete`, the time was over, and another run
    continues. `problems` says what stopped a kind, such as an archive that cannot be written; the others went on.
    """

    dry_run: bool
    by_kind: Mapping[RetentionKind, Counter[str]]
    longest: float = 0.0
    complete: bool = True
    problems: Mapping[RetentionKind, str] = field(default_factory=dict)


def kinds_with_rules(policy: RetentionPolicy, only: Collection[RetentionKind] = ()) -> list[RetentionKind]:
    """Return the kinds of rows that have a rule, in the order of a run; `only` these where any are given."""
    kinds = {rule.kind for rule in policy.rules}
    return [kind for kind in RETENTION_ORDER if kind in kinds and kind in (only or RETENTION_ORDER)]


def count_due(store: Store, policy: RetentionPolicy, kinds: Collection[RetentionKind]) -> RetentionRun:
    """Count what `delete_due` would delete now, and delete nothing."""
    return RetentionRun(dry_run=True, by_kind=Sweep(store, policy).due(kinds))


def delete_due(
    store: Store,
    policy: RetentionPolicy,
    kinds: Collection[RetentionKind],
    notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    *,
    by: Principal = LOCAL,
    reason: str | None = None,
    has_time: Callable[[], bool] = lambda: True,
) -> RetentionRun:
    """Delete what the rules let go, kind by kind, while there is time. Raises Refused while another process does.

    Another process that begins during the run stops the kinds that follow, as any other problem does. It deletes in
    many transactions, so the audit log has its beginning, and how it ended: run, refused or failed.
    `notifier` gets how many rows of each kind went.
    """

    def record(kind: AuditKind, detail: Mapping[str, Json]) -> None:
        store.audit.record(AuditEntry.by(by, kind, reason=reason, detail=detail))

    record(AuditKind.RETENTION_BEGUN, {"what": [kind.value for kind in kinds]})
    try:
        done = _run(store, policy, kinds, notifier, has_time)
    except Exception as error:
        ended = AuditKind.RETENTION_REFUSED if isinstance(error, Refused) else AuditKind.RETENTION_FAILED
        with suppress(DuetimeError):  # where the database is away, the beginning is all that the log has
            record(ended, {"problem": str(error)})
        raise
    counts: dict[str, Json] = {kind.value: of.total() for kind, of in done.by_kind.items()}
    stopped = {"problem": "; ".join(f"{kind}: {text}" for kind, text in done.problems.items())} if done.problems else {}
    ended = AuditKind.RETENTION_FAILED if stopped else AuditKind.RETENTION_RUN
    record(ended, {"deleted": counts, "complete": done.complete, **stopped})
    return done


def _run(
    store: Store,
    policy: RetentionPolicy,
    kinds: Collection[RetentionKind],
    notifier: RunNotifier,
    has_time: Callable[[], bool],
) -> RetentionRun:
    """Delete what the rules let go.

    Expired idempotency keys go first, since a key keeps its task: where no process serves, nothing else removes them.
    """
    sweep, found, complete = Sweep(store, policy), dict[RetentionKind, Counter[str]](), True
    while has_time() and store.tasks.forget_keys(limit=KEYS_PER_BATCH) == KEYS_PER_BATCH:
        pass
    for kind in kinds:
        before = Counter(sweep.deleted)
        try:
            complete = complete and _deleted(sweep, kind, has_time)
        except Refused as refused:
            if not sweep.deleted:
                raise
            sweep.problems[kind] = str(refused)
        finally:  # also of a run that fails, or whose time is over
            found[kind] = sweep.deleted - before
            if found[kind]:
                notifier.noticed(RowsSwept(kind, found[kind].total(), sweep.longest))
    return RetentionRun(dry_run=False, by_kind=found, longest=sweep.longest, complete=complete, problems=sweep.problems)


def _deleted(sweep: Sweep, kind: RetentionKind, has_time: Callable[[], bool]) -> bool:
    """Delete the rows of one kind; return whether there was time for all.

    Some go even without time, and it reads on until it has found these: the next run would begin at the same page. So
    do all that are in the archive, where the next run would write them again.
    """
    steps = sweep.run([kind])
    try:
        for pause in steps:
            if not has_time() and sweep.deleted.total() and not sweep.owes:
                return False
            time.sleep(pause)
    finally:
        steps.close()  # type: ignore[attr-defined] # a generator: this gives its lock back
    if sweep.refused:
        raise Refused("Another process deletes by these rules at the moment; `duetime retention status` shows more.")
    return True
