"""No query of the store gives a tenant a byte of another one: not in rows, counts, errors, cursors or nearest ids.

The work of workers and of the dispatcher is for all tenants at once, and no caller reaches it. Every other method is
listed here with a call in the name of a tenant, and a method that is not listed fails the test.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.calls.bulk_change import BatchWrite, BulkDecision, BulkVerb, StoredBatch
from duetime.scheduler.chain.chain import Chain, NewChain
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.history.dead_letters import ClosingKey, DeadLetterFilter
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup
from duetime.scheduler.principal import Acting
from duetime.scheduler.records import ChangeOrigin, IdempotencyKey
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.rules.changes import pause, run_now
from duetime.scheduler.rules.policies.decision import Contender, Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import Store
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.access.secrets import Secrets
from duetime.scheduler.store.dead_letters.letters import NONE_TRIED
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.follow_ups import follow_ups
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.waits.fire_address import FireAddress
from duetime.scheduler.waits.signal import ReceivedSignal, SignalWait
from sqlalchemy import insert, update

from tests.builders import NOON, a_task, added, cancelled, log_chunk, message, restarted, settlement, started
from tests.canary import KEY as SECRET_KEY

CANARY = "canary7f3a"
OURS, THEIRS = "globex", "acme"
CHAIN, UPSTREAM = "c_7k3m9qx2w4hb", "t_7k3m9qx2w4hb"
AWAITING, RUN_AWAITING = "t_8k3m9qx2w4hb", "r_8k3m9qx2w4hb"
CANCELLED = "t_6k3m9qx2w4hb"
LEFT_OUT = update(runs).where(runs.c.task_id == CANCELLED).values(error=CANARY)
KEY = IdempotencyKey(f"key-{CANARY}", {"title": CANARY})

FOR_ALL_TENANTS = {
    "pools", "claims", "runners", "deliveries", "usage", "workers", "estimates", "integrity", "search", "backlog",
    "retention", "alerts", "turns", "policies", "ended_sessions",
    "blocked", "schema",
}  # fmt: skip
"""Parts that no caller reaches but an operator on the machine."""

OF_NO_TENANT = {
    "tasks.add", "tasks.add_many", "chains.add",  # the tenant is in what is stored
    "tasks.compared_with",  # of workers
    "tasks.forget_keys", "table_statistics.refresh",  # of the whole database
    "batches.remember",  # stores what its caller did, and answers nothing
    "batches.is_changed_since",  # batches that were read for the tenant
    "batches.reopen",  # a batch that was read for the tenant
    "commits.listen", "commits.write",  # of the processes that run tasks
    "commits.rehearse",  # runs what its caller gives
    "commits.notify", "dependencies.repair", "approvals.expire",  # likewise
    "signals.end_late", "signals.forget", "series.overtake", "series.end_pauses",  # likewise
    "history.latest", "history.since", "history.last_id", "history.tenants",  # subscriptions, tell each tenant apart
    "history.cursor_at", "history.place_of",  # a place, encrypted for a tenant; test_store_cursors has it
    "run_logs.write",  # by the run itself
    "audit.record",  # the tenant is in what is stored
    "audit.record_read",
    "audit.knows",  # of operators
    "claimed_runs.held", "claimed_runs.ended", "claimed_runs.owners",  # by the run; the worker's claim says whose it is
    "claimed_runs.ready_lanes", "claimed_runs.open_attempts",  # of the processes that run tasks, and of operators
    "external_workers.asked", "external_workers.called",  # stores what its caller did, and answers nothing
    "external_workers.all", "external_workers.last_seen",  # of operators, and of what a tenant's own task waits for
    "audit_chain.seal",
    "decisions.add", "decisions.trim", "decisions.ready_runs",  # of workers
    "api_keys.add", "api_keys.find", "api_keys.note_use", "api_keys.revoke", "api_keys.replace",  # by the key itself
    "dead_letters.replays",  # a count, of runs that the call before it has read for the tenant
    "inbox.of_runs",  # messages, of which streams send each to its own user alone
    "history.chains",  # names, of tasks whose changes subscribers are told of by their tenants
    "fire_addresses.find", "fire_addresses.fire",  # by the address itself
    "quiet_hours.set",  # stores what its caller did, and answers no more
    "secrets.set", "secrets.rotate", "secrets.undecryptable", "secrets.of_older_keys",  # of operators
}  # fmt: skip
NEARLY = timedelta(days=9)
PAUSED = BulkDecision(BulkVerb.PAUSE, EventKind.PAUSED, lambda record, _: pause(record), lambda _: CANARY)
BATCH = BatchWrite(
    StoredBatch(BulkVerb.PAUSE, CANARY, "token", NOON, {}, {}, {}),
    0,
    NOON + timedelta(days=30),
    Acting(actor="bob", via=None),
    repeat_name=CANARY,
)


def filters() -> Iterator[TaskFilter]:
    yield TaskFilter()
    yield TaskFilter(query=CANARY)
    yield TaskFilter(query=CANARY[:4])
    yield TaskFilter(label=CANARY)
    yield TaskFilter(action=CANARY)
    yield TaskFilter(states=(State.FAILED,), query=CANARY)
    yield TaskFilter(query=CANARY, before=NOON + timedelta(days=9))


def run_filters(task_id: str) -> Iterator[RunFilter]:
    yield RunFilter()
    yield RunFilter(task_id)
    yield RunFilter(text=CANARY)
    yield RunFilter(text=CANARY[:4], states=(State.FAILED,))
    yield RunFilter(label=CANARY)
    yield RunFilter(actor="alice", worker="w1")


def seen_by_quotas(store: Store, tenant: str) -> list[object]:
    """Return all that the quotas of a tenant go by."""
    seen: list[object] = []
    store.tasks.check(
        tenant,
        lambda counts: seen.extend(
            [
                counts.is_made(KEY),
                counts.created_before_last(1),
                counts.has_open(1),
                counts.payload_bytes(),
                counts.next_due(),
            ]
        ),
    )
    return seen


def calls(store: Store, task_id: str, run_id: str, tenant: str) -> dict[str, list[Callable[[], Any]]]:
    """Return the calls that could show something of the task, by method."""
    tasks, history, past, inbox = store.tasks, store.history, store.run_history, store.inbox
    letters, entry = store.dead_letters, AuditEntry(tenant, AuditKind.DEAD_LETTER_REPLAYED, "bob", subject=run_id)
    by = ChangeOrigin("bob", EventKind.PAUSED)
    changed: dict[str, Any] = {"actor": "bob", "kind": EventKind.PAUSED, "decide": pause}

    def undone() -> object:
        return tasks.undo_once(tenant, task_id, KEY, actor="bob", decide=lambda record, _: pause(record), revision=None)

    return {
        "tasks.agenda": [partial(tasks.agenda, tenant, f, limit=9) for f in filters() if f.before],
        "tasks.change": [lambda: tasks.change(tenant, task_id, **changed)],
        "tasks.change_once": [lambda: tasks.change_once(tenant, task_id, KEY, by, pause)],
        "tasks.counts": [partial(tasks.counts, tenant, f) for f in filters()],
        "tasks.check": [lambda: seen_by_quotas(store, tenant)],
        "tasks.cursor_behind": [lambda: tasks.cursor_behind(tenant, TaskFilter(), None)],
        "tasks.get": [lambda: tasks.get(tenant, task_id), lambda: tasks.get(tenant, f"{task_id[:-1]}0")],
        "tasks.made_by": [lambda: tasks.made_by(tenant, KEY)],
        "tasks.keyed": [lambda: tasks.keyed(tenant, [KEY.key])],
        "tasks.named": [lambda: tasks.named(tenant, CANARY), lambda: tasks.named(tenant, task_id[:6])],
        "tasks.of_runs": [lambda: tasks.of_runs(tenant, [run_id])],
        "tasks.page": [partial(tasks.page, tenant, f, limit=9) for f in filters()],
        "tasks.page_and_counts": [
            partial(tasks.page_and_counts, tenant, f, limit=9, most=9) for f in filters()
        ],
        "tasks.recurring": [partial(tasks.recurring, tenant, words=words, limit=9) for words in (None, CANARY)],
        "tasks.titles": [lambda: tasks.titles(tenant, [task_id])],
        "tasks.undo_once": [undone],
        "history.attempts": [lambda: history.attempts(tenant, task_id)],
        "history.not_run": [lambda: history.not_run(tenant, CANCELLED)],
        "history.failed_attempt": [lambda: history.failed_attempt(tenant, [run_id])],
        "dead_letters.page": [
            partial(letters.page, tenant, f, limit=9)
            for f in (DeadLetterFilter(), DeadLetterFilter(text=CANARY), DeadLetterFilter(label=CANARY))
        ],
        "dead_letters.get": [lambda: letters.get(tenant, run_id)],
        "dead_letters.closed_by": [lambda: store.dead_letters.closed_by(tenant, ClosingKey("k1", "asked"), 9)],
        "dead_letters.count": [lambda: letters.count(tenant, DeadLetterFilter(), replayed_below=3)],
        "dead_letters.counts": [lambda: letters.counts(tenant, DeadLetterFilter(), replayed_below=3)],
        "dead_letters.ids": [lambda: list(letters.ids(tenant, DeadLetterFilter()))],
        "dead_letters.open_tasks": [lambda: letters.open_tasks(tenant, [run_id])],
        "dead_letters.try_replays": [
            lambda: letters.try_replays(
                tenant,
                [run_id],
                lambda record: run_now(record, NOON),
                earlier=NONE_TRIED,
                left=lambda record, _: record,
            )
        ],
        "dead_letters.failed_runs": [lambda: letters.failed_runs(tenant, [task_id])],
        "dead_letters.open_runs": [lambda: letters.open_runs(tenant, [task_id])],
        "dead_letters.replay": [lambda: letters.replay(tenant, run_id, entry, lambda record: run_now(record, NOON))],
        "dead_letters.discard": [lambda: letters.discard(tenant, run_id, entry)],
        "history.events": [
            partial(history.events, tenant, f, limit=9)
            for f in (EventFilter(), EventFilter(task_id), EventFilter(text=CANARY), EventFilter(label=CANARY))
        ],
        "history.event_counts": [partial(history.event_counts, tenant, EventFilter(), group) for group in EventGroup],
        "history.event_buckets": [
            partial(history.event_buckets, tenant, EventFilter(task_id=of), BucketWidth.DAY) for of in (None, task_id)
        ],
        "run_history.page": [partial(past.page, tenant, f, limit=9) for f in run_filters(task_id)],
        "run_history.detail": [lambda: past.detail(tenant, run_id)],
        "run_history.counts": [partial(past.counts, tenant, RunFilter(), group) for group in RunGroup],
        "run_history.report": [lambda: past.report(tenant, NOON - timedelta(days=30), NOON + timedelta(days=30))],
        "run_history.trends": [lambda: past.trends(tenant, NOON - NEARLY, NOON + NEARLY, timedelta(days=1))],
        "run_history.costs": [
            partial(past.costs, tenant, NOON - timedelta(days=30), NOON + timedelta(days=30), (group,))
            for group in CostGroup
        ],
        "run_history.buckets": [partial(past.buckets, tenant, RunFilter(), width) for width in BucketWidth],
        "chains.get": [lambda: store.chains.get(tenant, CHAIN)],
        "chains.names": [lambda: store.chains.names(tenant, [task_id])],
        "approvals.open_of": [lambda: store.approvals.open_of(tenant, [run_id])],
        "approvals.answered": [lambda: store.approvals.answered(tenant, run_id)],
        "approvals.answer": [
            partial(store.approvals.answer, tenant, task_id, each, actor="m") for each in ApprovalAnswer
        ],
        "approvals.answer_all": [
            partial(store.approvals.answer_all, tenant, [task_id], each, actor="m") for each in ApprovalAnswer
        ],
        "approvals.open_counts": [lambda: store.approvals.open_counts(tenant)],
        "approvals.approved": [lambda: store.approvals.approved(tenant, [run_id, RUN_AWAITING])],
        "approvals.rejected": [lambda: store.approvals.rejected(tenant, [run_id])],
        "approvals.take_back": [lambda: store.approvals.take_back(tenant, [task_id], "a_1", None, actor="m")],
        "signals.open_of": [lambda: store.signals.open_of(tenant, [task_id, AWAITING])],
        "signals.wait_of_run": [lambda: store.signals.wait_of_run(tenant, task_id, run_id)],
        "fire_addresses.of_task": [lambda: store.fire_addresses.of_task(tenant, task_id)],
        "fire_addresses.add": [lambda: store.fire_addresses.add(an_address(tenant, task_id), entry, renew=False)],
        "fire_addresses.revoke": [lambda: store.fire_addresses.revoke(tenant, task_id, entry)],
        "signals.send": [lambda: store.signals.send(tenant, ReceivedSignal("paid", task_id), actor="bob")],
        "dependencies.known": [lambda: store.dependencies.known(tenant, [task_id])],
        "dependencies.upstreams": [lambda: store.dependencies.upstreams(tenant, task_id)],
        "dependencies.of_waiting": [lambda: store.dependencies.of_waiting(tenant, run_id, task_id)],
        "dependencies.failure": [lambda: store.dependencies.failure(tenant, UPSTREAM)],
        "dependencies.made_by_failures": [lambda: store.dependencies.made_by_failures(tenant, task_id)],
        "dependencies.results": [lambda: store.dependencies.results(tenant, task_id)],
        "dependencies.begun_since": [lambda: store.dependencies.begun_since(tenant, UPSTREAM, NOON)],
        "dependencies.waiters": [lambda: store.dependencies.waiters(tenant, UPSTREAM)],
        "batches.matching": [lambda: store.batches.matching(tenant, TaskFilter(), 9)],
        "batches.named": [lambda: store.batches.named(tenant, [task_id])],
        "batches.still": [lambda: store.batches.still(tenant, [task_id])],
        "batches.related": [lambda: store.batches.related(tenant, [UPSTREAM])],
        "batches.stored": [lambda: store.batches.stored(tenant, BATCH.batch.token)],
        "batches.latest": [lambda: store.batches.latest(tenant, CANARY)],
        "batches.change": [lambda: store.batches.change(tenant, [task_id], PAUSED, BATCH)],
        "run_logs.read": [lambda: store.run_logs.read(tenant, run_id, limit=9)],
        "run_logs.newest": [lambda: store.run_logs.newest(tenant, run_id, limit=9)],
        "inbox.mark_read": [
            lambda: inbox.mark_read(tenant, "alice"), lambda: inbox.mark_read(tenant, "alice", task_id=task_id),
        ],
        "inbox.mark_unread": [lambda: inbox.mark_unread(tenant, "alice", task_id, since=NOON - timedelta(days=1))],
        "inbox.quiet_count": [lambda: inbox.quiet_count(tenant, "alice", most=9)],
        "inbox.has": [lambda: inbox.has(tenant, "alice", "m_")],
        "inbox.missed": [lambda: inbox.missed(tenant, "alice", limit=9, most=9)],
        "inbox.page": [lambda: inbox.page(tenant, "alice", limit=9), lambda: inbox.page(tenant, "alice", limit=1)],
        "inbox.unread": [
            lambda: inbox.unread(tenant, "alice"), lambda: inbox.unread(tenant, "alice", run_id=run_id),
            lambda: inbox.unread(tenant, "alice", of=task_id),
        ],
        "quiet_hours.get": [lambda: store.quiet_hours.get(tenant, CANARY)],
        "quiet_hours.all": [lambda: store.quiet_hours.all(tenant)],
        "quiet_hours.texts": [lambda: store.quiet_hours.texts([(tenant, CANARY)])],
        "quiet_hours.clear": [lambda: store.quiet_hours.clear(tenant, CANARY, entry)],
        "audit_chain.heads": [lambda: store.audit_chain.heads(tenant)],
        "audit_chain.verify": [lambda: list(store.audit_chain.verify(tenant))],
        "audit_chain.verify_alone": [lambda: store.audit_chain.verify_alone(tenant)],
        "audit.page": [lambda: store.audit.page(tenant, AuditFilter(), limit=9)],
        "decisions.page": [
            lambda: store.decisions.page(tenant, limit=9),
            lambda: store.decisions.page(tenant, limit=9, task_id=task_id),
        ],
        "decisions.get": [lambda: store.decisions.get(tenant, f"d_{CANARY}")],
        "api_keys.all": [lambda: store.api_keys.all(tenant)],
        "api_keys.revoke_tenant": [lambda: store.api_keys.revoke_tenant(tenant)],
        "secrets.all": [lambda: store.secrets.all(tenant)],
        "secrets.hosts": [lambda: store.secrets.hosts(tenant)],
        "secrets.value": [lambda: store.secrets.value(tenant, "crm")],
        "secrets.remove": [lambda: store.secrets.remove(tenant, "crm")],
    }  # fmt: skip


def answered(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except DuetimeError as error:
        return f"{type(error).__name__}: {error}"


def answers(store: Store, task_id: str, run_id: str) -> dict[str, list[str]]:
    return {name: [answered(each) for each in some] for name, some in calls(store, task_id, run_id, OURS).items()}


def an_address(tenant: str, task_id: str) -> FireAddress:
    return FireAddress(f"{tenant[0]}{task_id[3:]}", tenant, task_id, "0" * 64, NOON, CANARY)


def fill(store: Store) -> tuple[str, str]:
    """Store a failed and a cancelled task of the other tenant, with the canary wherever people write; return ids."""
    values: dict[str, Any] = {
        "tenant": THEIRS, "title": f"{CANARY} report", "labels": (CANARY,), "payload": {"message": CANARY},
    }  # fmt: skip
    Secrets(store._database, store.now, Cipher([read_key(SECRET_KEY)])).set(
        THEIRS, "crm", f"{CANARY} value", by=CANARY, hosts=(CANARY,)
    )
    store.quiet_hours.set(THEIRS, CANARY, CANARY, AuditEntry(THEIRS, AuditKind.QUIET_HOURS_SET, CANARY))
    task, run = a_task(**values)
    upstream = started(store, tenant=THEIRS, title=CANARY)
    store.claims.settle([settlement(upstream, result=CANARY)])
    waiting, after = replace(run, state=State.WAITING, wake_at=None), [Dependency(upstream.task.id)]
    store.signals.send(THEIRS, ReceivedSignal("paid", task.id, {CANARY: CANARY}), actor=CANARY)
    wait = SignalWait("paid", {CANARY: CANARY}, NOON - NEARLY, NOON + NEARLY)
    chain = Chain(CHAIN, THEIRS, "alice", CANARY, task.timezone, NOON)
    store.chains.add(
        NewChain(chain, {"fetch": DependentTask(task, waiting, "alice", KEY, after=tuple(after), wait=wait)})
    )
    record = store.tasks.get(THEIRS, task.id)
    behind, run_behind = a_task(**values)
    waiting = replace(run_behind, state=State.WAITING, wake_at=None)
    store.tasks.add(behind, waiting, actor="alice", after=[Dependency(task.id)])  # a replay lets it wait again
    awaiting, run_awaiting = a_task(**values, id=AWAITING)
    waiting = replace(run_awaiting, id=RUN_AWAITING, state=State.WAITING, wake_at=None)
    store.tasks.add(awaiting, waiting, actor="alice", wait=replace(wait, name="other"))
    address = an_address(THEIRS, task.id)
    store.fire_addresses.add(address, AuditEntry(THEIRS, AuditKind.FIRE_ADDRESS_MADE, CANARY), renew=False)
    claim = restarted(store, record)
    failed = settlement(
        claim,
        State.FAILED,
        summary=CANARY,
        error=CANARY,
        traceback=CANARY,
        log=(log_chunk(claim, 1, CANARY, last=True),),
        inbox=message(claim, text=CANARY),
        dead_letter=True,
        used={CANARY: 1.0},
        costs={CANARY: 5},
    )
    store.claims.settle([failed])
    closed = started(store, **values)
    quiet = message(closed, text=CANARY, quiet=True, created_at=store.now())
    store.claims.settle([settlement(closed, State.FAILED, error=CANARY, inbox=quiet, dead_letter=True)])
    entry = AuditEntry(THEIRS, AuditKind.DEAD_LETTER_DISCARDED, CANARY, subject=closed.run.id)
    store.dead_letters.discard(THEIRS, closed.run.id, entry, ClosingKey("k1", "asked"))
    cancelled(store, added(store, NOON + timedelta(days=1), id=CANCELLED, **values), reason=f"{CANARY} said so")
    store.claims.settle([settlement(started(store, **values), summary=CANARY)])
    added(store, NOON + timedelta(days=2), **values)
    added(store, NOON + timedelta(days=4), id=UPSTREAM, **values)
    behind, its_run = a_task(**values)
    held = replace(its_run, state=State.WAITING, wake_at=None)
    store.tasks.add(behind, held, actor="alice", after=[Dependency(UPSTREAM)])
    series = added(store, NOON + timedelta(days=4), repeat="FREQ=DAILY", **values)
    store.batches.change(THEIRS, [series.task.id], PAUSED, BATCH)
    store.audit.record(AuditEntry(THEIRS, AuditKind.POOL_SET, CANARY, CANARY, CANARY, CANARY, {CANARY: CANARY}))
    look = Look(1.0, 0, 1, (0.0,) * 5, (2.0,) * 5, (None,) * 5, 3, Contender(run.id, 1.0, THEIRS))
    asked: dict[str, Any] = {"run_id": run.id, "question": CANARY, "default": ApprovalAnswer.REJECT, "asked_at": NOON}
    answered = {"attempt": 2, "closed_at": NOON, "answer": ApprovalAnswer.APPROVE, "answered_by": CANARY}
    rows = [
        {**asked, **each}
        for each in (
            answered | {"attempt": 0, "answer": ApprovalAnswer.REJECT},
            dict.fromkeys(answered) | {"attempt": 1},
            answered,
            answered | {"attempt": 0, "run_id": RUN_AWAITING},
            dict.fromkeys(answered) | {"attempt": 1, "run_id": RUN_AWAITING},
        )
    ]
    store._database.write(
        lambda connection: (connection.execute(insert(approvals), rows), connection.execute(LEFT_OUT))
    )
    failure = {"of_task": task.id, "of_run": run.id, "title": CANARY, "state": State.FAILED, "why": CANARY, "at": NOON}
    row = {"task_id": UPSTREAM, "tenant": THEIRS, **failure}
    store._database.write(
        lambda connection: (
            connection.execute(
                insert(dependencies),
                {
                    "task_id": closed.task.id,
                    "upstream_id": UPSTREAM,
                    "tenant": THEIRS,
                    "after_failure": AfterFailure.FAIL,
                },
            ),
            connection.execute(insert(follow_ups), row),
        )
    )
    store.decisions.add([Decision(f"d_{CANARY}", NOON, THEIRS, task.id, run.id, CANARY, look)])
    while store.search.advance() or store.audit_chain.seal():
        pass
    return task.id, run.id


def test_every_method_of_the_store_is_called_here_or_is_of_no_tenant(store: Store) -> None:
    methods = {
        f"{part}.{name}"
        for part, of in vars(store).items()
        if not part.startswith("_") and part not in FOR_ALL_TENANTS
        for name, _ in inspect.getmembers(type(of), inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods == set(calls(store, "t_1", "r_1", OURS)) | OF_NO_TENANT


def test_answers_are_the_same_whether_or_not_another_tenant_has_something(store: Store) -> None:
    """Ids are those of the other tenant's task, which the empty store does not have either."""
    added(store, NOON + timedelta(days=3), tenant=OURS, owner="bob", title="Own report")
    store.audit_chain.seal()
    task, run = a_task()
    empty = {
        name: [re.sub(rf"{task.id[:-1]}.|{run.id}", "asked", text) for text in some]
        for name, some in answers(store, task.id, run.id).items()
    }
    task_id, run_id = fill(store)
    for name, some in answers(store, task_id, run_id).items():
        same = [re.sub(rf"{task_id[:-1]}.|{run_id}", "asked", text) for text in some]
        assert name == "tasks.cursor_behind" or same == empty[name], name
        assert all(CANARY not in text.replace(f"key-{CANARY}", "") for text in some), name


def test_the_owner_of_the_canaries_is_answered_otherwise(store: Store) -> None:
    """The calls can show something."""
    task_id, run_id = fill(store)
    stranger = answers(store, task_id, run_id)
    for name, some in calls(store, task_id, run_id, THEIRS).items():
        if not name.startswith("api_keys"):
            assert [answered(each) for each in some] != stranger[name], name


def test_an_attempt_of_a_tenant_on_anothers_task_changed_nothing(store: Store) -> None:
    task_id, run_id = fill(store)
    before, newest = store.tasks.get(THEIRS, task_id), store.history.latest()
    unread = store.inbox.unread(THEIRS, "alice")
    answers(store, task_id, run_id)
    assert (store.tasks.get(THEIRS, task_id), store.history.latest()) == (before, newest)
    assert store.inbox.unread(THEIRS, "alice") == unread != []


def test_the_same_key_of_two_tenants_names_two_tasks(store: Store) -> None:
    first, second = (
        store.tasks.add(*a_task(tenant=tenant), actor="alice", key=KEY).record for tenant in (THEIRS, OURS)
    )
    assert first.task.id != second.task.id
    assert store.tasks.made_by(OURS, KEY) == second


def test_a_cursor_of_another_tenant_is_refused(store: Store) -> None:
    for _ in range(2):
        added(store, tenant=THEIRS)
    _, cursor = store.tasks.page(THEIRS, TaskFilter(), limit=1)
    assert answered(lambda: store.tasks.page(OURS, TaskFilter(), limit=1, cursor=cursor)).startswith("InvalidArgument")


@pytest.mark.parametrize("indexed", [True, False])
def test_words_that_are_common_elsewhere_are_counted_exactly(
    store: Store, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 3)
    for _ in range(5):
        added(store, tenant=THEIRS, title="Quarterly report")
    own = added(store, tenant=OURS, owner="bob", title="Quarterly report")
    while indexed and store.search.advance():
        pass
    page, _, counts = store.tasks.page_and_counts(OURS, TaskFilter(query="quarterly"), limit=9, most=3)
    assert [record.task.id for record in page] == [own.task.id]
    assert (counts.by_state, counts.at_least) == ({State.SCHEDULED: 1}, frozenset())
