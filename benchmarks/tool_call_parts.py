"""Measure the parts of a `schedule_task` call one after the other, without a server; the way to its thread apart."""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duetime.scheduler.foresight.task_view import view_of
from duetime.scheduler.intake.idempotency import key_of
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.request import Request
from duetime.server.app import build
from duetime.server.protocol.plain_calls import CALL_METHOD, PlainToolCalls
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.settings.model import Settings
from duetime.tools.arguments.arguments import Arguments
from duetime.tools.results import answer
from duetime.tools.schedule_task import REMINDER, schedule_task
from duetime.tools.threads import cross
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.text.task_text import task_text
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from mcp.types.version import LATEST_MODERN_VERSION

WARM_UP_COUNT = 100
ENVELOPE = {
    PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
    CLIENT_CAPABILITIES_META_KEY: {},
    CLIENT_INFO_META_KEY: {"name": "bench", "version": "1"},
}


class Stopwatch:
    """Adds up the CPU time of this thread by part."""

    def __init__(self) -> None:
        self.spent_ns: dict[str, int] = defaultdict(int)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        before = time.thread_time_ns()
        yield
        self.spent_ns[name] += time.thread_time_ns() - before


def parts(calls: int, when: str) -> dict[str, float]:
    """Return what each part of a call costs, in microseconds of CPU; the database is a new SQLite file."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        url = f"sqlite:///{folder}/duetime.db"
        settings = Settings.model_validate({"database_url": url, "timezone": "America/Edmonton"})
        with build(settings) as app:
            planner = Planner(app.handlers, settings.timezone)
            plain = PlainToolCalls(make_server(lambda: app.scheduler, Subscriptions(lambda: app.store.history)))
            arguments = Arguments("schedule_task", schedule_task(REMINDER, ()).arguments)
            watch = Stopwatch()
            for number in range(WARM_UP_COUNT + calls):
                if number == WARM_UP_COUNT:
                    watch = Stopwatch()
                given = {"title": f"Call John {number}", "when": when}
                line = line_of(number, given)
                with watch.part("request read"):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    call = plain.of(message) if isinstance(message, JSONRPCRequest) else None
                assert call is not None
                with watch.part("arguments read"):
                    values, _ = arguments.read(given)
                request, now = Request(**values, raw=given), app.store.now()
                with watch.part("words of the time"):
                    planner.times.timing(request, now)
                with watch.part("words, checks and task"):
                    plan = planner.plan(request, LOCAL, now)
                with watch.part("idempotency key"):
                    key = key_of(request, LOCAL, now)
                with watch.part("store, one transaction"):
                    added = app.store.tasks.add(plan.task, plan.run, actor="local", key=key)
                with watch.part("view and payload"):
                    payload = task_payload(view_of(added.record, now, created=True, warnings=plan.warnings))
                    structured = as_json(payload)
                with watch.part("text"):
                    text = task_text(payload)
                with watch.part("response, as JSON"):
                    plain.in_json(call, answer(structured, text))
    return {name: spent / calls / 1_000 for name, spent in watch.spent_ns.items()}


def line_of(number: int, given: dict[str, str]) -> bytes:
    """Return a call as a client of the present protocol writes it."""
    params = {"name": "schedule_task", "arguments": given, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": CALL_METHOD, "params": params}).encode()


async def there_and_back_us(calls: int) -> float:
    """Return what a call costs that does nothing on its thread, on both threads together."""
    before = time.process_time_ns()
    for _ in range(calls):
        await cross(bool)
    return (time.process_time_ns() - before) / calls / 1_000
