"""The suite's own configuration: what one test does wrong costs no other test, and the summary is always printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # it has no stubs of its own

from tests import conftest

ROOT = Path(__file__).resolve().parents[1]
PASSED_COUNT = 6
INNER_LIMIT_S = 150


def inner(folder: Path, hanging: str, *options: str) -> str:
    """Run a few tests, one of which hangs, as the suite is run; return what was printed."""
    (folder / "test_inner.py").write_text(
        f"import signal, threading, time, pytest\npytestmark = pytest.mark.faults\n{hanging}\n"
        f"@pytest.mark.parametrize('n', range({PASSED_COUNT}))\ndef test_fine(n): pass\n"
    )
    configured = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "tests.conftest", *options]
    command = [sys.executable, "-m", "pytest", *configured, str(folder)]
    laptop = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=INNER_LIMIT_S, env=laptop
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


TROUBLED = """
def test_hangs(): threading.Event().wait()
from tests import conftest, services
@pytest.fixture
def database():
    def absent(): raise services.Unavailable("no server here")
    yield from conftest.started(absent)
@pytest.mark.parametrize('n', range(3))
def test_database(database, n): pass
"""


BLOCKED = """
def test_blocks():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)
"""
STUCK = """
@pytest.fixture
def stuck():
    yield
    time.sleep(1000)
def test_sticks(stuck): time.sleep(1000)
"""


@pytest.fixture(scope="module", params=["0", "1"])
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what a run said, without and with a worker, of a test that hangs and of a service that does not start.

    In a worker there are also two tests that no limit can free. The signal does not reach one, and the teardown of the
    other hangs too.
    """
    hanging = TROUBLED + (BLOCKED + STUCK) * int(request.param)
    return inner(tmp_path_factory.mktemp("inner"), hanging, "--timeout=1", "-n", request.param)


@pytest.mark.parametrize(("said", "failed_count"), [("0", 1), ("1", 4)], indirect=["said"])
def test_a_test_that_hangs_fails_alone(said: str, failed_count: int) -> None:
    """A test whose teardown hangs too fails twice: at its limit, and with its worker."""
    assert "test_hangs" in said
    assert "Timeout (>1.0s)" in said
    assert re.search(rf"\b{failed_count} failed, {PASSED_COUNT} passed", said.splitlines()[-1]), said


def test_tests_of_a_service_that_does_not_start_are_counted_in_the_summary(said: str) -> None:
    assert "! NOT TESTED: 3 tests were skipped because PostgreSQL or Valkey does not start here !" in said
    assert f"{PASSED_COUNT} passed, 3 skipped" in said.splitlines()[-1]


@pytest.mark.parametrize("said", ["1"], indirect=True)
@pytest.mark.parametrize("test", ["test_blocks", "test_sticks"])
def test_a_test_that_its_limit_cannot_free_fails_alone(said: str, test: str) -> None:
    assert re.search(rf"crashed while running '.*{test}'", said), said
    assert f"{PASSED_COUNT} passed" in said.splitlines()[-1]


DRAWING = """
import random, threading
from hypothesis import given, strategies as st
@st.composite
def numbers(draw):
    beside = threading.Thread(target=random.random)
    beside.start()
    beside.join()
    return draw(st.integers())
@given(numbers())
def test_draws(n): print('drew', n)
def test_fails(): assert False
"""


def test_a_random_test_is_the_same_each_time_whatever_threads_of_others_draw(tmp_path: Path) -> None:
    (tmp_path / "test_same.py").write_text(DRAWING)

    drawn = re.findall(r"drew (.+)", inner(tmp_path, DRAWING, "-n", "0", "-s"))

    count = len(drawn) // 2
    assert count > 50
    assert drawn[:count] == drawn[count:]


class FakeWorker:
    """A worker process, as the scheduler of pytest-xdist sees it: it runs a test once it knows the next one."""

    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def run_to_the_end(scheduler: conftest.Files, workers: list[FakeWorker]) -> None:
    """Let each worker in turn run the first test that it has."""
    for turn in range(len(scheduler.collection)):
        for worker in workers:
            if turn < len(worker.given):
                scheduler.mark_test_complete(worker, worker.given[turn])


def the_order_of(tests: list[str], worker_count: int) -> list[list[str]]:
    """Return which files each of some workers is given, who take turns at running the first test that they have."""
    options = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=options, getvalue=lambda _name: ["popen"] * worker_count)
    scheduler, workers = conftest.Files(config, Producer("test")), [FakeWorker() for _ in range(worker_count)]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    run_to_the_end(scheduler, workers)
    return [[tests[number] for number in worker.given] for worker in workers]


def test_a_worker_stays_with_its_browser_and_others_leave_the_files_for_it_alone() -> None:
    cards = [f"tests/widgets/card/test_{n}.py::test_it" for n in range(4)]
    admin = [f"tests/flow/admin/browser/test_{n}.py::test_it" for n in range(2)]
    others = [f"tests/flow/test_{n}.py::test_it" for n in range(6)]
    last = ["tests/rules/test_0.py::test_it", "tests/rules/test_1.py::test_it"]
    mixed = [cards[0], *others[:4], *cards[1:], *admin, *others[4:]]

    first, second, third = the_order_of([*mixed, *last], 3)

    assert first[:4] == cards
    assert not set(second + third) & set(cards)
    assert [[test for test in given if test in admin] for given in (first, second, third)].count([]) == 2
    assert sorted(first + second + third) == sorted(mixed + last)
    assert {first[-1], second[-1]} == {*last}, "the brief ones are left when all else is given out"


def test_files_for_a_browser_are_shared_when_nothing_else_but_the_brief_ones_is_left() -> None:
    cards = [f"tests/widgets/card/test_{n}.py::test_it" for n in range(6)]
    first, second = the_order_of([*cards, "tests/rules/test_0.py::test_it"], 2)
    assert {*first} & {*cards}
    assert second[0] in cards


@pytest.mark.parametrize(("count", "given"), [(4, [2, 3]), (2, [1])], ids=["many are left", "one is left"])
def test_a_worker_in_place_of_a_crashed_one_runs_the_first_test_that_it_gets(count: int, given: list[int]) -> None:
    options = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=options, getvalue=lambda _name: ["popen"])
    scheduler, tests = conftest.Files(config, Producer("test")), [f"test_{n}.py::test_it" for n in range(count)]
    crashed, new = FakeWorker(), FakeWorker()
    for worker in (crashed, new):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
        scheduler.schedule()
        if worker is crashed:
            assert scheduler.remove_node(worker) == tests[0], "it is not tried again"

    assert new.given == given
    assert new.shutting_down is (len(given) == 1), "it knows that none follows"


def test_workers_that_crash_before_their_replacements_are_ready_lose_no_test() -> None:
    options = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=options, getvalue=lambda _name: ["popen"] * 2)
    tests = [f"test_{file}.py::test_{number}" for file in range(4) for number in range(4)]
    scheduler, crashed, new = (
        conftest.Files(config, Producer("test")),
        [FakeWorker(), FakeWorker()],
        [FakeWorker(), FakeWorker()],
    )
    for worker in crashed:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()

    said = []
    for worker, replacement in zip(crashed, new, strict=True):
        said.append(scheduler.remove_node(worker))
        scheduler.add_node(replacement)
    assert said == [tests[0], tests[4]], "both are reported"

    for worker in new:
        scheduler.add_node_collection(worker, tests)
        scheduler.schedule()
    run_to_the_end(scheduler, new)
    assert sorted(tests[number] for worker in new for number in worker.given) == sorted({*tests} - {*said})
    assert not scheduler.has_pending
    assert all(worker.shutting_down for worker in new)
