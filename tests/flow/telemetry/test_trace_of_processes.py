"""One trace of one task over a server and a worker process, PostgreSQL and Redis, as an OTLP collector receives it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import forked
from tests.flow import waiting
from tests.flow.telemetry.receiver import Receiver, receiving
from tests.flow.telemetry.span_tree import Seen, of_otlp, tree

pytestmark = [pytest.mark.postgres, pytest.mark.faults]

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 60
eventually = partial(waiting.eventually, patience=PATIENCE_S)
DUETIME = [sys.executable, "-m", "duetime"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"
SECRET = "whsec_" + "QUJD" * 10
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@dataclass
class Site:
    """A server, a worker, and a receiver of traces and webhooks."""

    folder: Path
    receiver: Receiver
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *command: str) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            environment = {**self.environment, "OTEL_SERVICE_NAME": name}
            process = forked.popen([*DUETIME, *command], cwd=ROOT, env=environment, stdout=output, stderr=output)
        self.processes.append(process)
        return log

    def has_begun(self, log: Path, words: str) -> bool:
        text = log.read_text(errors="replace")
        assert all(process.poll() is None for process in self.processes), text
        return words in text

    def called(self, log: Path, meta: dict[str, Any], **headers: str) -> Any:
        """Schedule a webhook, by a call of the tool over HTTP."""
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/mcp", log.read_text())
        hook = {"url": self.receiver.url("/hook"), "body": {"secret": "of the payload"}}
        named = {"title": "A title of secrets", "action": "webhook", "payload": hook, "deliver_to": ["webhook:team"]}
        params = {"name": "schedule_task", "arguments": named, "_meta": {**META, **meta}}
        protocol = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "schedule_task"}
        accepted = {"Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx2.post(url, json=body, headers={**accepted, **protocol, **headers}, timeout=PATIENCE_S).json()

    def spans(self) -> list[Seen]:
        return [span for request in self.receiver.at("/v1/traces") for span in of_otlp(request.body)]


@pytest.fixture
def site(tmp_path: Path, migrated_postgres_url: str, valkey_url: str) -> Iterator[Site]:
    with receiving() as receiver:
        config = tmp_path / "duetime.toml"
        config.write_text(
            f"[channels.team]\nwebhook = {receiver.url('/team')!r}\nsecret = {SECRET!r}\n", encoding="utf-8"
        )
        ours = {
            "DUETIME_CONFIG": str(config),
            "DUETIME_DATABASE_URL": migrated_postgres_url,
            "DUETIME_REDIS_URL": valkey_url,
            "DUETIME_REDIS_NAMESPACE": tmp_path.name[:40],
            "DUETIME_TIMEZONE": "UTC",
            "DUETIME_YIELD_TO_LOAD": "false",
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_WEBHOOK_ALLOW_HTTP": "true",
            "DUETIME_WEBHOOK_ALLOW_PRIVATE": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url(),
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "HOME": str(tmp_path),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DUETIME_", "OTEL_"))}
        site = Site(tmp_path, receiver, {**kept, **ours})
        yield site
        for process in site.processes:
            process.kill()
            process.wait(PATIENCE_S)


@pytest.mark.parametrize("way", ["header", "_meta"])
def test_one_task_is_one_trace_over_a_server_and_a_worker(site: Site, way: str) -> None:
    server, worker = site.start("server", "serve", "--port", "0"), site.start("worker", "worker")
    for log, words in ((server, "/mcp"), (worker, "now runs tasks")):
        eventually(lambda: site.has_begun(log, words), f"{words!r} is said")  # noqa: B023 - it is called here only
    given: dict[str, Any] = {"traceparent": CALLER} if way == "_meta" else {}
    answer = site.called(server, given, **({} if way == "_meta" else {"traceparent": CALLER}))
    assert "error" not in answer, answer
    eventually(lambda: any(span.name == "deliver webhook" for span in site.spans()), "its delivery is traced")
    eventually(lambda: any(span.name == "tools/call schedule_task" for span in site.spans()), "its call is traced")
    whole = [span for span in site.spans() if span.trace == TRACE]
    lines = tree(whole, parent="00f067aa0ba902b7")
    sys.stdout.write("\n".join(lines) + "\n")
    assert lines == [
        "tools/call schedule_task (server)",
        "  schedule webhook (server)",
        "    run webhook (worker)",
        "      admit webhook (worker)",
        "      claim webhook (worker)",
        "      handle webhook (worker)",
        "        POST (worker)",
        "      settle webhook (worker)",
        "      deliver webhook (worker)",
        "        POST (worker)",
    ]
    sent = [request.headers["traceparent"] for path in ("/hook", "/team") for request in site.receiver.at(path)]
    assert [traceparent.split("-")[1] for traceparent in sent] == [TRACE] * 2
    assert not any(b"secret" in request.body for request in site.receiver.at("/v1/traces"))
