"""A deferred application opens for a client that calls, soon for one that reads lists, and for no other."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.nodes.candidacy import Candidacy, Sign
from duetime.server.transport.deferred_app import DeferredApp

PATIENCE_S = 60


class FakeApp:
    """Counts what is done to it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.candidacy: Candidacy | None = None
        self.reconsidered = self.begun_to_end = self.closed = 0

    def start(self, candidacy: Candidacy) -> None:
        self.candidacy = candidacy
        self.started.set()

    def reconsider(self) -> None:
        self.reconsidered += 1

    def begin_end(self) -> None:
        self.begun_to_end += 1

    def close(self) -> None:
        self.closed += 1


class Unstartable(FakeApp):
    def start(self, _: Candidacy) -> None:
        raise StoreUnavailable("not today")


def deferred(*apps: FakeApp | Exception, delay: float = 0) -> DeferredApp:
    """Return one that gets these applications, or these failures, one after the other."""
    left = list(apps)

    def build() -> Any:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return DeferredApp(build, delay=delay)


@pytest.mark.parametrize("sign", [Sign.CALLED, Sign.LISTED])
def test_a_client_that_calls_or_reads_lists_opens_the_application_unasked(sign: Sign) -> None:
    app = FakeApp()
    deferred(app).note(sign)
    assert app.started.wait(PATIENCE_S)


def test_a_handshake_opens_nothing() -> None:
    app = deferred()  # opening would fail for want of an application
    app.note(Sign.NONE)
    assert app._opening is None
    assert app.history() is None
    app.begin_end()
    app.hurry()
    app.close()


def test_the_runner_learns_of_signs_from_before_and_after_the_opening() -> None:
    app = FakeApp()
    one = deferred(app, delay=PATIENCE_S)
    one.note(Sign.LISTED)
    assert one.open() is one.open()
    assert app.candidacy is not None
    assert app.candidacy.wait() != 0, "a client that reads lists may wait"
    before = app.reconsidered
    one.note(Sign.CALLED)
    assert app.reconsidered == before + 1
    one.close()


def test_after_a_failure_the_next_call_tries_again() -> None:
    half, app = Unstartable(), FakeApp()
    one = deferred(StoreUnavailable("the database is away"), half, app)
    with pytest.raises(StoreUnavailable, match="is away"):
        one.open()
    with pytest.raises(StoreUnavailable, match="not today"):
        one.open()
    assert half.closed == 1, "what was half open is closed"
    one.open()
    assert app.started.is_set()


def test_an_app_opened_during_the_end_answers_calls_and_runs_nothing() -> None:
    app = FakeApp()
    one = deferred(app)
    one.begin_end()
    opened: object = one.open()
    assert opened is app
    assert app.begun_to_end == 1
    one.close()


def test_after_its_end_nothing_opens() -> None:
    app = FakeApp()
    one = deferred(app)
    one.open()
    one.close()
    assert app.closed == 1
    with pytest.raises(StoreUnavailable, match="is ending"):
        one.open()
