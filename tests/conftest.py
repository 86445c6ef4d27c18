"""Settings of the whole suite, and the services that tests share.

The suite is the same each time: random tests draw the same examples, and each worker process has servers of its own.
A test that takes too long fails alone. `.ci/run search` draws other examples, many more of them.

A service that cannot start skips its tests on a laptop, and the summary counts them; it fails them when `CI` is set.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path

import pytest
from duetime.server.runtime.garbage import NEW_OBJECTS_PER_COLLECTION
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer  # type: ignore[import-untyped]  # it has no stubs of its own
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # likewise
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # likewise

from tests import blank, certificates, compiled, forked, services
from tests.search import SEARCH_RATIO, USUAL_EXAMPLE_COUNT

FIRST = ("browser", "faults")
"""The marks of files that take longest. They wait for other processes most of the time."""

LAST = "tests/rules/"
"""The folder that ends the suite: its files take a second or two each, so all workers end at about the same time."""

BROWSERS = {f"tests/widgets/{folder}/": "cards" for folder in ("card", "chats", "list")}
BROWSERS |= {"tests/flow/admin/browser/": "admin"}
"""Folders whose files show pages in one browser as long as they follow each other, and which browser that is."""

NO_SERVICE = "a service is missing"
"""Begins the reason for which a test is skipped whose database or queue does not start here."""

MIN_WORKERS, MAX_WORKERS = 2, 8

os.environ.setdefault("PYTEST_TIMEOUT", "240")
"""Seconds after which pytest-timeout fails a test: far more than any takes, on a busy machine too."""

# Tests start hundreds of processes: each would compile the package again where Python is told to keep no bytecode.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes is no promise of ours. What fails is told at once: shrinking it is for the search.
settings.register_profile(
    "suite",
    max_examples=USUAL_EXAMPLE_COUNT,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "search",
    deadline=None,
    database=None,
    print_blob=True,
    max_examples=SEARCH_RATIO * USUAL_EXAMPLE_COUNT,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("suite")

compiled.share()
certificates.share()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts background jobs, and children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --- how the suite is spread over processes ---------------------------------------------------------------------------


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Take two workers more than there are cores, as many tests wait; single files are done sooner in one process."""
    if all(".py" in argument for argument in config.args):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(MIN_WORKERS, min(cores + 2, MAX_WORKERS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that wait and files that compute take turns; the brief ones come last, so all workers end together."""
    files = dict[str, list[pytest.Item]]()
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = [name for name, tests in files.items() if any(map(tests[0].get_closest_marker, FIRST))]
    last = [name for name in files if name.startswith(LAST)]
    others = [name for name in files if name not in {*waiting, *last}]
    in_turn = [name for pair in itertools.zip_longest(waiting, others) for name in pair if name]
    items[:] = [item for name in [*in_turn, *last] for item in files[name]]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect as little garbage as a server does, and never what is imported and collected: nothing lets it go."""
    gc.disable()
    try:
        _import_in_turns(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS_PER_COLLECTION)
        gc.enable()


def _import_in_turns(config: pytest.Config) -> None:
    """Let each worker begin with another test file: in a new clone one of them rewrites it, and the others find it."""
    if not hasattr(config, "workerinput") or config.args != config.getini("testpaths"):
        return
    files = sorted(path for folder in config.args for path in Path(folder).rglob("test_*.py"))
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    first = len(files) * number // count
    for path in files[first:] + files[:first]:
        with suppress(Exception):  # whatever is wrong with it, its collection says so
            import_module(".".join(path.with_suffix("").parts))


class Files(LoadFileScheduling):  # type: ignore[misc]  # it is Any to mypy
    """A worker takes whole files; a test that ends its worker is not tried again, and the others run elsewhere."""

    def remove_node(self, node: WorkerController) -> str | None:
        units = self.assigned_work[node]
        left = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
        for unit, test in left[:1]:
            unit[test] = True
        self.assigned_work[node] = {name: unit for name, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return left[0][1] if left else None

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the next file for the browser that it runs, else one for which no other worker runs a browser.

        To start a browser costs as much as several tests.
        """
        running = {each: _browser_for(next(reversed(units), "")) for each, units in self.assigned_work.items()}
        mine, used = running.pop(node, None), {*running.values()} - {None}

        def rank(name: str) -> int:
            browser = _browser_for(name)
            if browser is None or browser != mine:
                return 1 + (browser in used) + 2 * name.startswith(LAST)
            return 0

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker two tests, or say that none follows: until then it holds back the one it has."""
        if node not in self.registered_collections:
            return  # it replaces one that crashed, and has not said yet that it is ready for tests
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()


def _browser_for(name: str) -> str | None:
    return next((browser for folder, browser in BROWSERS.items() if name.startswith(folder)), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return Files(config, log)


# --- tests that hang --------------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        limit_s = float(config.getoption("timeout", None) or os.environ["PYTEST_TIMEOUT"])
        config.pluginmanager.register(LastResort(2 * limit_s))
        if "forks" in config.workerinput:
            forked.share(config.workerinput["forks"])


def pytest_configure_node(node: WorkerController) -> None:
    """Let all workers have their processes forked by one: to import Duetime takes seconds of a processor."""
    if sys.platform == "linux":
        node.workerinput["forks"] = forked.folder()


class LastResort:
    """Ends a worker that the time limit of a test could not free, with every thread's stack; another takes its place.

    The limit is a signal: it fails a test that waits in Python, and not one that waits elsewhere or is torn down.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._stderr = os.dup(2)  # the one of the session, not what a test captures

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        faulthandler.dump_traceback_later(self._patience_s, file=self._stderr, exit=True)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        faulthandler.dump_traceback_later(self._patience_s, file=self._stderr, exit=True)
        yield
        faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure() -> None:
    forked.close()


# --- folders ----------------------------------------------------------------------------------------------------------

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _end_of_logs() -> Iterator[None]:
    """Take away the handlers that a test gave the log of this process: their streams end with the test."""
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    yield
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler and each not in before]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for one test. Pytest's own fixture lists those of all tests before it to find the next number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_numbers)}", numbered=False)


# --- services ---------------------------------------------------------------------------------------------------------


def started(service: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    try:
        manager, url = services.start(service)
    except services.Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"{NO_SERVICE}: {error}")
    try:
        yield url
    finally:
        manager.__exit__(None, None, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was not tested: a green summary alone would hide that a whole database was left out."""
    skipped = [str(each.longrepr) for each in terminalreporter.stats.get("skipped", [])]
    if untested := sum(NO_SERVICE in reason for reason in skipped):
        line = f"NOT TESTED: {untested} tests were skipped because PostgreSQL or Valkey does not start here"
        terminalreporter.write_sep("!", line, red=True, bold=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a real PostgreSQL, one for each test process."""
    yield from started(services.postgres_server)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Make an empty database for one test."""
    with services.postgres_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    with blank.postgres_template(postgres_server) as name:
        yield name


@pytest.fixture
def migrated_postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """Make a database with Duetime's tables for one test."""
    with services.postgres_database(postgres_server, options=f'TEMPLATE "{postgres_template}"') as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """Start a real Valkey (Redis protocol), one for each test process."""
    yield from started(services.valkey_server)
