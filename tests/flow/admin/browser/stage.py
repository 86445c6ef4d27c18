"""A company's installation at work, for pictures of its admin page: some of everything that a page can show."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.handlers import Context, Plugin, handler
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.nodes import term
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.policies.decision import Contender, Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier
from duetime.server.app import App

from tests.builders import a_task
from tests.flow.admin.sample import fill
from tests.flow.admin.served import Served, served
from tests.flow.waiting import PATIENCE_S, eventually

SLOT_COUNT = 2
TASKS_COUNT = 90
AHEAD = timedelta(hours=6)
"""By so much the day of the sample ends after now: what has run in it fills the day until now."""

HOST = "worker-1"
"""The machine that the pictures name, whoever draws them."""

MARIA = Principal("local", "maria", via="admin 10.0.0.7")


def renderer(ended: threading.Event) -> Plugin:
    """Return a handler that holds a slot of the GPU until the event comes."""

    @handler("render", needs={"gpu": 1})
    def render(ctx: Context) -> Done:
        """Render a film."""
        ctx.progress(0.4, "frame 480 of 1,200")
        ended.wait(PATIENCE_S)
        return Done("rendered")

    return render


@contextmanager
def at_work(folder: Path) -> Iterator[Served]:
    """Serve a day of tasks, of which some run now."""
    url, ended = f"sqlite:///{folder}/duetime.db", threading.Event()
    fill(url, TASKS_COUNT, until=datetime.now(UTC) + AHEAD, overdue=False)
    with _as_one_machine(), served(url, runs=True, handlers=[renderer(ended)]) as site:
        try:
            _work(site.app)
            yield site
        finally:
            ended.set()


@contextmanager
def _as_one_machine() -> Iterator[None]:
    """Name the worker of a runner that starts within the block by `HOST`, not by this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term, "socket", SimpleNamespace(gethostname=lambda: HOST))
        patch.setattr(term, "os", SimpleNamespace(getpid=lambda: 4711))
        yield


def _work(app: App) -> None:
    for number in range(SLOT_COUNT + 2):
        app.scheduler.schedule(f"Render trailer {number + 1}", action="render", priority=Tier.HIGH)
    eventually(lambda: len(list(app.store.claims.running(limit=9))) == SLOT_COUNT, "the slots to be held")
    app.scheduler.schedule("Pay the invoice of Acme", when="in 3 hours", approval={"question": "Pay 90 EUR to Acme?"})
    store = app.store
    task, run = a_task(
        store.now() + timedelta(hours=5), title="Push contacts to the CRM", action="webhook", tenant="local"
    )
    store.tasks.add(
        task, replace(run, summary=f"{BLOCKED_PREFIX}secret 'crm': there is none of this name"), actor="maria"
    )
    app.registry.policies.set({"patience": {"normal": "4 minutes"}}, by=MARIA, reason="chats wait too long")
    app.registry.policies.shadow.set({"patience": {"low": "20 minutes"}}, by=MARIA, reason="translations are late")
    _decided(store)
    for kind, subject, reason in (
        (AuditKind.KEY_CREATED, "k_7k3m9qx2", "for the shop"),
        (AuditKind.SECRET_SET, "billing", None),
        (AuditKind.LOGGED_IN, None, None),
    ):
        store.audit.record(AuditEntry.by(MARIA, kind, subject, reason=reason))
    while store.audit_chain.seal():
        pass


def _decided(store: Store) -> None:
    """Record takes, so that the shadow has something to be compared with."""
    now = store.now()
    ms = now.timestamp() * 1000
    runs = store.run_history.page("local", RunFilter(), limit=12).runs
    for number, run in enumerate(runs):
        head = Contender(run.id, ms - 4000, "local")
        other = Contender(f"r_{number:0>20}", ms + 90_000, "local")
        contenders = (None, None, head, other, None)
        look = Look(ms, 1, 4, (0.0,) * 5, (2.0,) * 5, contenders, 2, head, ())
        store.decisions.add([Decision(f"d_{number}", now, "local", run.task_id, run.id, "w1", look, {})])


@contextmanager
def asking_for_a_key(folder: Path) -> Iterator[Served]:
    """Serve nothing, to nobody without a key."""
    with served(f"sqlite:///{folder}/guarded.db", auth=("keys",)) as site:
        yield site


@contextmanager
def without_tasks(folder: Path) -> Iterator[Served]:
    """Serve an empty database."""
    with served(f"sqlite:///{folder}/empty.db") as site:
        yield site
