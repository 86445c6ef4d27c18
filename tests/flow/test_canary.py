"""A secret with a canary value is used in every way, and no output of Duetime shows it."""

from __future__ import annotations

import asyncio
import gzip
import html
import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import DeliveryState, State
from duetime.server.app import Role, build
from duetime.server.cli.main import run
from duetime.server.settings.model import Settings
from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util._once import Once
from pydantic import SecretStr
from redis import Redis
from sqlalchemy import create_engine, inspect, text

from tests import forked
from tests.canary import CANARY, KEY, files_with_it, leaks, shown_in, unpacked
from tests.flow.delivery.receiver import Answer, Server, serving
from tests.flow.protocol.serve_process import ADDRESS
from tests.flow.waiting import eventually

ROOT = Path(__file__).parents[2]
OWN = ("raises", "returns", "talks", "crashes", "hangs")
ECHO = json.dumps({"headers": {"authorization": f"Bearer {CANARY}"}}).encode()
ANSWERS = {"success": Answer(200, body=ECHO), "failure": Answer(400, body=ECHO), "outage": Answer(500, body=ECHO)}
ONCE = {"max_attempts": 1, "backoff_seconds": 1, "max_backoff_seconds": 1}
LINK = re.compile(r'href="(/admin[^"#]*)"')
MAX_PAGES = 110
ENDED = {State.SUCCEEDED, State.FAILED}


def hang(_file: object) -> None:
    threading.Event().wait(5)


@pytest.fixture
def receivers() -> Iterator[dict[str, Server]]:
    """Serve a receiver for each answer, one that never answers, and one for the channel and for the origin."""
    names = (*ANSWERS, "silence", "channel", "origin", "traces")
    open_ones = {name: serving(Server()) for name in names}
    made = {name: next(each) for name, each in open_ones.items()}
    for name, answer in ANSWERS.items():
        made[name].answers = [answer] * 9
    made["silence"].answers = [Answer(200, write=hang)]
    yield made
    for each in open_ones.values():
        next(each, None)


@pytest.fixture
def environment(tmp_path: Path, receivers: dict[str, Server], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the environment of every command; tracers that they make global end with the test."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    team = {
        "webhook": receivers["channel"].url(),
        "secret": "secret:signing",
        "headers": {"Authorization": "Bearer secret:canary"},
    }
    settings = {
        "DATABASE_URL": f"sqlite:///{tmp_path}/duetime.db",
        "SECRET_KEYS": KEY,
        "HANDLERS": "tests.flow.canary_handlers",
        "CHANNELS": json.dumps({"team": team}),
        "ORIGINS": json.dumps({"chat": {**team, "webhook": receivers["origin"].url()}}),
        "DELIVER_TO": "team",
        "DESKTOP_NOTIFICATIONS": "off",
        "WEBHOOK_ALLOW_HTTP": "true",
        "WEBHOOK_ALLOW_PRIVATE": "true",
        "WEBHOOK_SECRET": "secret:signing",
        "WEBHOOK_TIMEOUT_SECONDS": "1",
        "TIMEZONE": "UTC",
        "PORT": "0",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"DUETIME_{name}", value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receivers["traces"].url(path="/v1/traces"))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    yield
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@contextmanager
def served(log: Path, style: str) -> Iterator[str]:
    """Run `duetime serve` with its log in a file; give its address."""
    environment = {**os.environ, "DUETIME_LOG_FORMAT": style, "DUETIME_LOG_LEVEL": "debug"}
    command = [sys.executable, "-m", "duetime", "serve"]
    with log.open("w") as stream, forked.popen(command, stderr=stream, cwd=ROOT, env=environment) as process:
        try:
            eventually(lambda: ADDRESS in log.read_text(), "the server's address")
            line = next(line for line in log.read_text().splitlines() if ADDRESS in line)
            yield line.split(ADDRESS)[1].split('"')[0].strip()
        finally:
            process.terminate()


def said(*arguments: str, stdin: str = "", monkeypatch: pytest.MonkeyPatch, capsys: Any) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    capsys.readouterr()
    run(arguments)
    written = capsys.readouterr()
    return str(written.out + written.err)


Say = Callable[..., str]


@pytest.fixture
def say(environment: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    return lambda *arguments, stdin="": said(*arguments, stdin=stdin, monkeypatch=monkeypatch, capsys=capsys)


def scheduled(say: Say, receivers: dict[str, Server]) -> list[str]:
    """Schedule a run of each way; return their tasks."""
    hooks = {
        name: {"url": receivers[name].url(), "headers": {"Authorization": "Bearer secret:canary"}}
        for name in (*ANSWERS, "silence")
    }
    hooks["closed"] = {"url": "http://127.0.0.1:9/hook", "headers": {"Authorization": "Bearer secret:canary"}}
    calls = [("webhook", json.dumps(payload)) for payload in hooks.values()] + [(action, "{}") for action in OWN]
    made = [
        say("schedule", f"{action} {number}", "--action", action, "--payload", payload, "--when", "now", "--json",
            "--retry", "1")
        for number, (action, payload) in enumerate(calls)
    ]  # fmt: skip
    asked = ("--origin", '{"client": "chat", "thread": "th_7"}', "--deliver-to", "origin", "--deliver-to", "team")
    made.append(say("schedule", "for a chat", "--action", "returns", "--when", "now", "--json", "--retry", "1", *asked))
    return [json.loads(text.splitlines()[0])["id"] for text in made]


async def over_mcp(address: str, tasks: list[str]) -> str:
    """Return all that a client sees of the tasks."""
    async with Client(address) as client:
        seen = [await client.call_tool("get_task", {"task_id": task, "history": True}) for task in tasks]
        seen.append(await client.call_tool("list_tasks", {}))
        bad = {"title": "x", "action": "webhook", "when": "in 1 hour"}
        headers = {"Authorization": "Bearer secret:unknown"}
        payload = {"url": "https://example.com", "headers": headers}
        seen.append(await client.call_tool("schedule_task", bad | {"payload": payload}))
        resources = await client.list_resources()
        read = [await client.read_resource(str(each.uri)) for each in resources.resources if "task" in str(each.uri)]
    return repr(seen) + repr(read)


def over_http(address: str, store: Store, tasks: list[str]) -> dict[str, str]:
    """Return each page of the admin page that a link leads to, its exports, the metrics, and each answer of REST."""
    root, pages = address.removesuffix("/mcp"), dict[str, str]()
    runs = [store.tasks.get("local", task).run.id for task in tasks]
    wanted = ["/metrics", "/admin", "/admin/runs?format=csv", "/admin/runs?format=json"]
    wanted += [f"/admin/runs/{run}" for run in runs]
    for path, methods in json.loads((ROOT / "docs/openapi.json").read_text("utf-8"))["paths"].items():
        if "get" in methods and "/changes" not in path:
            named = [path.replace("{task_id}", tasks[at]).replace("{run_id}", runs[at]) for at in (1, 2)]
            wanted += [f"/v1{each}" for each in named]
    with httpx2.Client(base_url=root, timeout=60) as http:
        while wanted and len(pages) < MAX_PAGES:
            path = wanted.pop(0)
            if path not in pages and not path.startswith(("/admin/static", "/admin/live")):
                answer = http.get(path)
                pages[path] = answer.text + str(answer.headers)
                followed = LINK.findall(answer.text) if path.startswith("/admin") else []
                wanted += map(html.unescape, followed)
    return pages


def fired(address: str, task: str) -> list[tuple[str, str]]:
    """Make a fire address and call it in every way, also after its end; return the halves of it and of the next one."""
    with httpx2.Client(base_url=address.removesuffix("/mcp"), timeout=60) as http:
        path: str = http.post(f"/v1/tasks/{task}/address", json={}).json()["path"]
        bodies = (b'{"order": 7}', b'{"order": 7}', b"no json", b"[1]", b"x" * 70_000)
        answers = [http.post(path, content=body, headers={"Webhook-Id": "push-7"}) for body in bodies]
        answers += [http.get(path), http.post(f"{path}0"), http.post(f"{path}/more")]
        renewed: str = http.post(f"/v1/tasks/{task}/address", json={"renew": True}).json()["path"]
        answers.append(http.post(path))
    assert [each.status_code for each in answers] == [200, 200, 400, 422, 413, 405, 404, 404, 404]
    tokens = [each.rpartition("/")[2].removeprefix("df_") for each in (path, renewed)]
    halves = [(public, secret) for public, _, secret in (token.partition("_") for token in tokens)]
    shown = "".join(each.text + str(each.headers) for each in answers)
    assert shown_in(shown, [secret for _, secret in halves]) == []
    return halves


def archived(url: str, folder: Path) -> list[Path]:
    """Let all that has ended get old and be deleted; return the files of the archive."""
    folder.mkdir()
    later = datetime.now(UTC) + timedelta(days=400)
    rules = tuple(RetentionRule(kind, timedelta(days=1)) for kind in RetentionKind)
    store = open_store(url, clock=lambda: later)
    store._database.write(lambda connection: connection.exec_driver_sql("DELETE FROM dead_letters"))
    list(Sweep(store, RetentionPolicy(rules, folder)).run())
    store.close()
    return list(folder.rglob("*.gz"))


def over_the_command_line(say: Say, tasks: list[str]) -> str:
    shown = [say("show", task, "--history", *how) for task in tasks for how in ((), ("--json",))]
    verbs = [
        ("list",), ("list", "--json"), ("failed",), ("failed", "--json"), ("history",), ("history", "--json"),
        ("inbox", "list"), ("inbox", "list", "--json"), ("inbox", "list", "--csv"), ("inbox", "read"), ("stats",),
        ("doctor",), ("doctor", "--deep", "--json"), ("config",), ("config", "--json"), ("secrets", "list"),
        ("secrets", "list", "--json"), ("secrets", "rotate"), ("keys", "list"), ("pools", "list"),
    ]  # fmt: skip
    logs = [say("logs", task, *how) for task in tasks for how in ((), ("--json",))]
    assert any("by ***" in log for log in logs), "a handler logged the value"
    return "\n".join([*shown, *(say(*verb) for verb in verbs), *(say("explain", task) for task in tasks), *logs])


def settled(store: Store, tasks: list[str]) -> bool:
    records = [store.tasks.get("local", task) for task in tasks]
    return all(record.run.state in ENDED for record in records)


def delivered(store: Store, tasks: list[str]) -> bool:
    records = [store.tasks.get("local", task) for task in tasks]
    return all(each.state is not DeliveryState.PENDING for record in records for each in record.deliveries)


@pytest.mark.parametrize("style", ["json", "text"])
def test_no_output_shows_the_value_of_a_secret(
    say: Say, tmp_path: Path, receivers: dict[str, Server], style: str
) -> None:
    said = [say("secrets", "set", "canary", stdin=CANARY), say("secrets", "set", "signing", stdin="whsec_" + "Q" * 32)]
    log = tmp_path / "server.log"
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", secret_keys=[read_key(KEY)])
    with served(log, style) as address:
        tasks = scheduled(say, receivers)
        eventually(lambda: settled(store, tasks), "the runs to end")
        eventually(lambda: len(receivers["channel"].received) >= len(tasks), "the deliveries")
        eventually(lambda: receivers["origin"].received, "the delivery to the origin")
        addresses = fired(address, tasks[-1])
        eventually(lambda: settled(store, tasks), "the run by the fire address to end")
        said.append(asyncio.run(over_mcp(address, tasks)))
        said.append(over_the_command_line(say, tasks))
        pages = over_http(address, store, tasks)
    store.close()
    secrets = [secret for _, secret in addresses]
    assert list(files_with_it(tmp_path, [addresses[-1][0]])), "the store finds it by its public half"
    assert leaks((), tmp_path, secrets) == []
    assert {"/metrics", "/admin/audit", "/v1/audit"} <= pages.keys()
    assert sum("***" in page for path, page in pages.items() if path.startswith("/admin/runs/r_")) > 3
    traces = b"".join(each.body for each in receivers["traces"].received).decode("latin-1")
    assert "duetime" in traces
    assert any(
        "***" in unpacked(path.read_bytes()).decode()
        for path in archived(f"sqlite:///{tmp_path}/duetime.db", tmp_path / "archive")
    )
    for receiver in (*ANSWERS, "channel", "origin"):
        got = [each.headers["authorization"] for each in receivers[receiver].received]
        assert got == [f"Bearer {CANARY}"] * len(got) != []
    everything = "\n".join(said)
    assert everything.count("***") > 5
    assert "***" in log.read_text()
    shown = [("output", everything), ("log", log.read_text()), ("traces", traces), *pages.items()]
    assert leaks(shown, tmp_path) == []
    assert leaks(shown, tmp_path, secrets) == []
    assert "its fire address was called (push-7)" in everything
    assert "unknown" in everything


def dump_of_postgres(url: str) -> str:
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        rows = [
            row for table in tables for row in connection.execute(text(f'SELECT t::text FROM "{table}" t')).scalars()
        ]
    engine.dispose()
    return "\n".join(rows)


def dump_of_queue(url: str) -> str:
    with Redis.from_url(url) as client:
        return "\n".join(repr((key, client.dump(key))) for key in client.scan_iter())


def test_a_shared_database_and_its_queue_never_hold_the_value(
    migrated_postgres_url: str, valkey_url: str, receivers: dict[str, Server], tmp_path: Path
) -> None:
    settings = Settings(
        database_url=migrated_postgres_url,
        redis_url=valkey_url,
        redis_namespace=f"canary-{tmp_path.name[-20:].replace('_', '-')}",
        secret_keys=SecretStr(KEY),
        webhook_allow_http=True,
        webhook_allow_private=True,
        desktop_notifications="off",
        timezone="UTC",
    )
    payload: dict[str, Any] = {"url": receivers["failure"].url(), "headers": {"Authorization": "Bearer secret:canary"}}
    with build(settings, role=Role.SERVE) as server, build(settings, role=Role.WORK) as worker:
        server.store.secrets.set("local", "canary", CANARY, by="ann")
        server.start()
        tasks = [
            server.scheduler.schedule(f"Send {number}", when="now", action="webhook", payload=payload).record.task.id
            for number in range(3)
        ]
        eventually(lambda: "canary-" in dump_of_queue(valkey_url), "the queue to have something")
        waiting = dump_of_queue(valkey_url)
        worker.start()
        eventually(lambda: settled(server.store, tasks), "the runs to end")
        dumps = [
            ("queue", waiting),
            ("queue", dump_of_queue(valkey_url)),
            ("database", dump_of_postgres(migrated_postgres_url)),
        ]
    assert [each.headers["authorization"] for each in receivers["failure"].received] == [f"Bearer {CANARY}"] * 3
    assert dumps[2][1].count("***") >= 3
    assert leaks(dumps, None) == []


def test_the_watch_over_all_tests_notices_a_leak(tmp_path: Path) -> None:
    (tmp_path / "fine.txt").write_text("nothing here")
    assert leaks([("Captured stdout call", "all well\n")], tmp_path) == []
    (tmp_path / "leak.db").write_bytes(b"\0" + CANARY.encode())
    assert list(files_with_it(tmp_path)) == [tmp_path / "leak.db"]
    found = leaks([("Captured stdout call", f"well\nBearer {CANARY}\n")], tmp_path)
    assert [each.split(":")[0] for each in found] == ["Captured stdout call", str(tmp_path / "leak.db")]
    (tmp_path / "leak.db").write_bytes(gzip.compress(CANARY.encode()))
    assert list(files_with_it(tmp_path)) == [tmp_path / "leak.db"]
    (tmp_path / "leak.db").unlink()
    assert shown_in("canary") == []
