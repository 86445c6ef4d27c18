"""Real clients over stdio and HTTP do each request of `docs/requests.md` on real processes, and get its answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
from duetime.scheduler.store import migrate_store, open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests import forked
from tests.builders import Clock
from tests.flow.protocol.serve_process import ServerLog
from tests.flow.requests.conversation import Call, Conversation, by_sdk
from tests.flow.requests.installation import POOLS, ZONE
from tests.flow.requests.node_client import by_node
from tests.flow.requests.page import PAGE, requests
from tests.flow.requests.start import START
from tests.flow.requests.timeline import Moment, Recording, RecordingInstallation, TurnedProcesses
from tests.flow.requests.turned_clock import FILE
from tests.flow.waiting import eventually

pytestmark = pytest.mark.anyio

Steps = deque[list[Moment]]
ROOT: Final = Path(__file__).resolve().parents[3]
DUETIME: Final = ["-m", "tests.flow.requests.turned_clock"]
PATIENCE_S: Final = 60

SAID: Final = (
    (re.compile(r"(?<= is )(?:scheduled for .+, now\.|(?:ready to start|running)\. It is due now\.)"), "due now."),
    (re.compile(r"(?<= by )(?:w|\S+-\d+-\S+)(?= |$)", re.MULTILINE), "a worker"),
    (re.compile(r"(?<= by local) \([^)]+\)"), ""),
)
"""Processes tell more than the installation of the page: their names, the way of a call, and that a run is ready."""

OBJECT: Final = re.compile(r"(?<=«)\{[^»]*(?=»)|(?<=  \| )\{.*\}$", re.MULTILINE)
"""PostgreSQL keeps JSON in an order of its own."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """Return the moments of the page as the installation in this process has them."""
    url = f"sqlite:///{tmp_path_factory.mktemp('recorded')}/duetime.db"
    clock = Clock()
    clock.at = START
    store = open_store(url, clock=clock, synchronous="OFF")
    installation = RecordingInstallation(store, clock, url)
    server = make_server(lambda: installation.scheduler, Subscriptions(lambda: store.history))
    async with Client(server) as client:
        conversation = Conversation(by_sdk(client), Recording(installation))
        for request in requests(PAGE.read_text("utf-8")):
            await conversation.answers(request)
    installation.close()
    store.close()
    return installation.steps


def environment(folder: Path, url: str, **settings: str) -> dict[str, str]:
    """Make the installation of the page: its handlers, pools and zone, and its clock."""
    (folder / FILE).write_text(START.isoformat(), "ascii")
    migrate_store(url)
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DUETIME_")}
    given = {
        "DATABASE_URL": url,
        "HANDLERS": "tests.flow.requests.handlers",
        "TIMEZONE": ZONE,
        "THREADS": "1",
        "YIELD_TO_LOAD": "false",
        "DESKTOP_NOTIFICATIONS": "off",
        "POOLS": json.dumps({name: {"capacity": pool.capacity} for name, (pool, _) in POOLS.items()}),
        **settings,
    }
    return {**kept, **{f"DUETIME_{name}": value for name, value in given.items()}, "PYTHONPATH": str(ROOT)}


async def converse(calls: list[Call], installation: TurnedProcesses) -> None:
    """Make the calls of the page, each request by the next client, and compare the answers."""
    clients = cycle(calls)
    current = next(clients)

    async def call(tool: str, arguments: dict[str, Any]) -> str:
        return await current(tool, arguments)

    conversation = Conversation(call, installation)
    for request in requests(PAGE.read_text("utf-8")):
        for made, answer in await conversation.answers(request):
            assert plain(answer) == plain(made.answer), f"{request.title}: {made.tool}"
        current = next(clients)


def plain(answer: str) -> str:
    for pattern, words in SAID:
        answer = pattern.sub(words, answer)
    return OBJECT.sub(lambda found: in_order(found[0]), answer)


def in_order(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return "the beginning of an object"


async def test_clients_of_two_sdks_over_stdio_get_the_answers_of_the_page(tmp_path: Path, steps: Steps) -> None:
    """Each starts a `duetime` of its own on one SQLite file."""
    url = f"sqlite:///{tmp_path}/duetime.db"
    given, command = environment(tmp_path, url), [*DUETIME, str(tmp_path)]
    python = StdioServerParameters(command=sys.executable, args=command, env=given)
    with (tmp_path / "log").open("w") as log, by_node(tmp_path, [sys.executable, *command], given) as node:
        async with Client(stdio_client(python, errlog=log)) as client:
            with closing(TurnedProcesses(tmp_path, url, deque(steps))) as installation:
                await converse([by_sdk(client), node], installation)


@pytest.mark.postgres
async def test_clients_of_two_sdks_over_http_get_the_answers_of_the_page(
    tmp_path: Path, steps: Steps, migrated_postgres_url: str, valkey_url: str
) -> None:
    """A server and a worker share PostgreSQL and Redis."""
    shared = {"REDIS_URL": valkey_url, "REDIS_NAMESPACE": tmp_path.name[:40], "SPREAD_SECONDS": "0", "PORT": "0"}
    given = environment(tmp_path, migrated_postgres_url, **shared)
    with running("worker", tmp_path, given), running("serve", tmp_path, given) as process:
        log = ServerLog(process.stderr)
        async with Client(log.address) as client:
            with (
                by_node(tmp_path, [log.address], given) as node,
                closing(TurnedProcesses(tmp_path, migrated_postgres_url, deque(steps))) as installation,
            ):
                await converse([by_sdk(client), node], installation)
        process.terminate()
        log.rest()


@contextmanager
def running(verb: str, folder: Path, given: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process of a shared installation whose clock is turned."""
    command = [sys.executable, *DUETIME, str(folder), verb]
    with (folder / f"{verb}.log").open("w") as log:
        stderr = subprocess.PIPE if verb == "serve" else log
        with forked.popen(command, cwd=ROOT, env=given, stderr=stderr, text=True) as process:
            try:
                eventually((folder / f"{FILE}-{process.pid}").exists, f"{verb} has the clock", PATIENCE_S)
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE_S)
