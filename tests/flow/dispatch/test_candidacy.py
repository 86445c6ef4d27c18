"""A process whose client stays becomes the runner; one that is only looked at never does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Handlers, reminder
from duetime.scheduler.nodes.candidacy import LISTENER_AGE_S, MIN_AGE_S, START_S, Candidacy, Sign
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.queue.remote import NoAnswer
from duetime.scheduler.runtime.file_lock import FileLock
from duetime.scheduler.store import Store, open_store
from duetime.server.app import build
from duetime.server.transport.deferred_app import sign_of

from tests import blank
from tests.flow.test_app import settings
from tests.flow.waiting import eventually


class Seconds:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    found = open_store(f"sqlite:///{tmp_path}/duetime.db", synchronous="OFF")
    yield found
    found.close()


def test_a_handshake_alone_never_makes_a_process_the_runner() -> None:
    clock = Seconds()
    candidacy = Candidacy(clock)
    clock.now += 3_600
    assert candidacy.wait() is None


def test_a_request_makes_a_process_the_runner_but_not_in_its_first_second() -> None:
    clock = Seconds()
    candidacy = Candidacy(clock)
    assert candidacy.note(Sign.CALLED)
    assert candidacy.wait() == MIN_AGE_S
    clock.now += MIN_AGE_S
    assert candidacy.wait() == 0


def test_a_client_that_only_read_the_tools_has_to_stay_until_no_probe_would() -> None:
    clock = Seconds()
    candidacy = Candidacy(clock)
    candidacy.note(Sign.LISTED)
    clock.now += LISTENER_AGE_S - 1
    assert candidacy.wait() == 1
    assert candidacy.note(Sign.CALLED)
    assert candidacy.wait() == 0
    assert not candidacy.note(Sign.LISTED), "a weaker sign takes nothing back"
    assert candidacy.wait() == 0


def test_a_runner_waits_for_the_sign_of_its_client(store: Store, tmp_path: Path) -> None:
    clock = Seconds()
    runner = Runner(store, Handlers([reminder]), RunnerOptions(tmp_path / "lock"))
    runner.start(candidacy := Candidacy(clock))
    clock.now += MIN_AGE_S
    try:
        runner.reconsider()
        assert (runner.running, candidacy.wait()) == (False, None)
        candidacy.note(Sign.CALLED)
        runner.reconsider()
        eventually(lambda: runner.running, "the runner")
    finally:
        runner.stop()


@pytest.mark.parametrize("sign", [Sign.LISTED, Sign.CALLED])
def test_a_process_says_that_it_starts_to_run_tasks_until_it_should_have(
    store: Store, tmp_path: Path, sign: Sign
) -> None:
    clock = Seconds()
    runner = Runner(store, Handlers([reminder]), RunnerOptions(tmp_path / "lock"))
    held = FileLock(tmp_path / "lock")
    assert (held.acquire(), runner.silence()) == (True, NoAnswer.NO_PROCESS)
    runner.start(candidacy := Candidacy(clock))
    try:
        clock.now += 3_600
        assert runner.silence() is NoAnswer.NO_PROCESS, "a probe never runs tasks"
        candidacy.note(sign)
        assert runner.silence() is NoAnswer.STARTING
        clock.now += START_S
        assert runner.silence() is NoAnswer.NO_PROCESS, "something keeps it from the lock"
    finally:
        runner.stop()
        held.release()


def test_a_young_process_starts_to_run_tasks_after_its_first_second() -> None:
    clock = Seconds()
    candidacy = Candidacy(clock)
    candidacy.note(Sign.CALLED)
    clock.now += MIN_AGE_S + START_S - 0.1
    assert candidacy.is_starting
    clock.now += 0.1
    assert not candidacy.is_starting


@pytest.mark.parametrize(
    ("method", "sign"),
    [
        ("initialize", Sign.NONE),
        ("server/discover", Sign.NONE),
        ("ping", Sign.NONE),
        ("notifications/initialized", Sign.NONE),
        ("logging/setLevel", Sign.NONE),
        ("tools/list", Sign.LISTED),
        ("resources/templates/list", Sign.LISTED),
        ("tools/call", Sign.CALLED),
        ("resources/read", Sign.CALLED),
        ("subscriptions/listen", Sign.CALLED),
    ],
)
def test_the_request_of_a_client_says_whether_it_stays(method: str, sign: Sign) -> None:
    assert sign_of(method) is sign


def test_an_application_that_waits_for_its_client_takes_no_seat_before(tmp_path: Path) -> None:
    with build(settings(tmp_path)) as app:
        candidacy = Candidacy()
        app.start(candidacy)
        assert app.store.runners.current() is None
        candidacy.note(Sign.CALLED)
        app.reconsider()
        eventually(app.store.runners.current, "the runner")
