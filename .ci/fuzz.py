"""Fuzz what reads input from outside, guided by coverage (atheris, libFuzzer): `fuzz.py TARGET SECONDS SEED FOLDER`.

A finding is any exception but a refusal of Duetime's own, an answer of 5xx, or one that takes longer than the limit.
Its input is left in FOLDER, and becomes an example of the suite. `.ci/run fuzz` runs all targets one after the other.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["duetime.scheduler", "duetime.server", "duetime.tools"]):
    from duetime.scheduler.errors import DuetimeError
    from duetime.scheduler.handlers import Handlers
    from duetime.scheduler.ids import is_id
    from duetime.scheduler.intake.planner import Planner
    from duetime.scheduler.outbound.url_policy import WebhookOptions, check_url
    from duetime.scheduler.principal import Principal
    from duetime.scheduler.queue import QueueDamaged
    from duetime.scheduler.queue.redis.queue import _take_of
    from duetime.scheduler.request import Request
    from duetime.scheduler.rules.ip_ranges import Reach, literal, reach
    from duetime.scheduler.rules.policies.policy import read_policy
    from duetime.scheduler.store import open_store
    from duetime.server.cli.order.policy import read_changes
    from duetime.server.settings.source import load_settings

from tests.flow.attacks import hostile, hostile_requests
from tests.flow.attacks.target import under_attack

NOW = datetime(2026, 11, 22, 16, 0, tzinfo=UTC)
MAX_INPUT_BYTES = 4_096
MAX_INPUT_S = 5
SCRATCH = Path(tempfile.mkdtemp(prefix="duetime-fuzz-"))
OPEN = AsyncExitStack()
"""Keeps a server open for as long as this process lives."""

Try = Callable[[bytes], None]


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def phrases() -> Try:
    planner = Planner(Handlers.load(entry_points=False), "Europe/Berlin")
    by = Principal("acme", "ann")

    def one(data: bytes) -> None:
        first, _, second = text_of(data).partition("\x1f")
        for request in (Request("x", when=first), Request("x", when="tomorrow", repeat=first, until=second or None)):
            with suppress(DuetimeError):
                planner.plan(request, by, NOW)

    return one


def urls() -> Try:
    options = WebhookOptions(allow_http=True)

    def one(data: bytes) -> None:
        try:
            url = check_url("url", text_of(data), options)
        except DuetimeError:
            return
        address = literal(url.host.rstrip("."))
        assert address is None or reach(address) is Reach.PUBLIC, url.host
        assert "@" not in url.netloc.decode(), url

    return one


def archives() -> Try:
    path = SCRATCH / "archive.jsonl.gz"
    store = open_store(f"sqlite:///{SCRATCH}/archive.db", synchronous="OFF")

    def one(data: bytes) -> None:
        path.write_bytes(gzip.compress(data, 1))
        with suppress(DuetimeError):
            store.retention.import_file(path)

    return one


def settings() -> Try:
    path = SCRATCH / "duetime.toml"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(DuetimeError):
            load_settings(path)

    return one


def policies() -> Try:
    def one(data: bytes) -> None:
        with suppress(DuetimeError):
            read_policy(read_changes(text_of(data).split("\x1f")))
        with suppress(DuetimeError, ValueError, RecursionError):
            found = json.loads(data)
            if isinstance(found, dict):
                read_policy(found)

    return one


def queue() -> Try:
    """Return what reads the answer of a script when somebody else wrote the ids, tokens and classes in Redis."""

    def one(data: bytes) -> None:
        words = text_of(data).encode("utf-8", "replace").decode().split("\x1f")
        words += [""] * (-len(words) % 3)
        with suppress(QueueDamaged):
            for grant in _take_of(json.dumps(["0", *words]), 1).grants:
                is_id(grant.run_id)

    return one


def over_http(send: Callable[[Any, bytes], Any]) -> Try:
    """Return what sends an input to a whole server, and judges the answer as the attack suite does."""
    loop = asyncio.new_event_loop()
    target = loop.run_until_complete(OPEN.enter_async_context(under_attack(SCRATCH)))

    def one(data: bytes) -> None:
        loop.run_until_complete(send(target, data))
        assert not target.wrong, target.wrong

    return one


OPERATIONS = (
    ("POST", "/tasks"), ("PATCH", "/tasks/{0}"), ("POST", "/tasks/batch"), ("POST", "/inbox/read"), ("POST", "/keys"),
    ("GET", "/tasks"), ("GET", "/runs"), ("GET", "/events"), ("GET", "/runs/counts"), ("GET", "/dead_letters"),
    ("GET", "/audit"), ("GET", "/inbox"), ("GET", "/stats"), ("GET", "/runs/buckets"),
)  # fmt: skip


async def to_rest(target: Any, data: bytes) -> None:
    method, path = OPERATIONS[data[0] % len(OPERATIONS)] if data else OPERATIONS[0]
    path = path.format(target.task_id)
    if method == "GET":
        query = data[1:].decode("latin-1").replace("#", "%23")
        await target.attack("GET", f"/v1{path}?{query}", token=target.admin_key)
    else:
        headers = {"Content-Type": "application/json"}
        await target.attack(method, f"/v1{path}", token=target.admin_key, content=data[1:], headers=headers)


async def to_mcp(target: Any, data: bytes) -> None:
    tools = ("schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task", "find_runs")
    arguments: Any = None
    with suppress(ValueError, RecursionError):
        arguments = json.loads(data[1:])
    if isinstance(arguments, dict):
        await target.call(tools[data[0] % len(tools)], arguments)


async def to_gate(target: Any, data: bytes) -> None:
    """Keys, tokens, cursors, and the places of streams."""
    word = data.decode("latin-1")
    for token in (word, f"dt_{word}", f"eyJ{word}"):
        await target.attack("GET", "/v1/tasks", token=None, refused=True, headers={"Authorization": f"Bearer {token}x"})
    for path in ("/v1/tasks", "/v1/events", "/v1/runs", "/v1/audit"):
        given = {"cursor": f"{word}x", "limit": 1}
        await target.attack("GET", path, token=target.admin_key, refused=True, params=given)


TOML = """
timezone = "UTC"
port = 1
[[retention]]
kind = "runs"
age = "30 days"
[channels.x]
webhook = "https://a.b/"
"""
POLICY = '{"patience": {"normal": "2 minutes"}, "shares": {"low": 0.1}}'
ARCHIVE = '{"schema": "duetime.archive/1", "database": "0001", "kind": "tasks"}\n{"table": "tasks", "row": {}}\n'
TASK = b'{"title": "x", "when": "in 1 hour", "repeat": "every day", "payload": {"a": [1]}}'
BODIES = [b"\0" + body for body in hostile_requests.BODIES if len(body) < MAX_INPUT_BYTES]
QUERIES = [b"\x05limit=1&cursor=x", b"\x06since=yesterday&state=failed&by=action"]

TARGETS: dict[str, tuple[Callable[[], Try], Sequence[str | bytes]]] = {
    "phrases": (phrases, (*hostile.TIMES, *hostile.REPEATS, "tomorrow at 9am", "every weekday at 9:00", "0 9 * * 1-5")),
    "urls": (urls, (*hostile.URLS, "https://example.com/hook?a=1#b", "https://xn--bcher-kva.example:8443/")),
    "archives": (archives, (ARCHIVE,)),
    "settings": (settings, (TOML,)),
    "policies": (policies, ("patience.normal='2 minutes'", POLICY)),
    "queue": (queue, ("r_1\x1ftoken\x1f3|!acme|resize|gpu=1,tpm=600",)),
    "rest": (lambda: over_http(to_rest), (b"\0" + TASK, *BODIES, *QUERIES)),
    "mcp": (lambda: over_http(to_mcp), (b"\0" + TASK, b'\x01{"state": "open", "limit": 1}')),
    "gate": (lambda: over_http(to_gate), (*hostile.CURSORS, "7k3m9qx2w4hb_" + "0" * 64)),
}


def main() -> None:
    name, seconds, seed, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
    logging.disable(logging.CRITICAL)
    for variable in [variable for variable in os.environ if variable.startswith("DUETIME_")]:
        del os.environ[variable]
    make, examples = TARGETS[name]
    corpus = SCRATCH / "corpus"
    corpus.mkdir()
    for number, example in enumerate(examples):
        content = example if isinstance(example, bytes) else example.encode("utf-8", "surrogatepass")
        (corpus / str(number)).write_bytes(content[:MAX_INPUT_BYTES])
    limits = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MAX_INPUT_BYTES}", f"-timeout={MAX_INPUT_S}"]
    limits += ["-rss_limit_mb=2000", f"-artifact_prefix={folder}/{name}-"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], make())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
