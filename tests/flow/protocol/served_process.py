"""A process that serves tools over stdio or HTTP, on a database of its own, with handlers that misbehave on purpose.

python served_process.py stdio|http DATABASE_URL
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from duetime import Context, Done, handler
from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.views import TaskView
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.readiness import readiness
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.transport.http import HttpSite, listening, run_http
from duetime.server.transport.stdio import run_stdio
from duetime.server.transport.stdio_wire import Wire
from duetime.tools.schedule_task import actions_of
from pydantic import BaseModel, field_validator

say = print
LOOK_INTERVAL_S = 0.05
"""The time between two looks for changes of other processes: a test that waits for one is done sooner."""


class Noise(BaseModel):
    """Prints in every way there is when its payload is checked."""

    text: str = ""

    @field_validator("text")
    @classmethod
    def _print(cls, text: str) -> str:
        say("printed and not flushed")
        say("printed and flushed", flush=True)
        os.write(1, b"written to descriptor 1\n")
        subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        return text


@handler("noise", payload=Noise)
def noise(ctx: Context, payload: Noise) -> Done:
    return Done(summary=payload.text)


class Misbehaving(Scheduler):
    """`get_task` of these ids fails in ways that no caller can cause."""

    def get(self, task_id: str, **kwargs: Any) -> TaskView:
        if task_id == "t_defect":
            raise RuntimeError("a detail that nobody outside must see")
        if task_id == "t_hanging":
            time.sleep(3_600)
        return super().get(task_id, **kwargs)


def main() -> int:
    wire = Wire.claim() if sys.argv[1] == "stdio" else None
    say("printed while handlers are imported")
    configure_logs("info", "json")
    store = open_store(sys.argv[2], synchronous="OFF")
    changes = Subscriptions(lambda: store.history, interval=LOOK_INTERVAL_S)
    handlers = Handlers([*Handlers.load(entry_points=False).values(), noise])
    scheduler = Misbehaving(
        store, Planner(handlers, "America/Edmonton"), notices=ChangeNotices(on_change=changes.touched)
    )
    server = make_server(lambda: scheduler, changes, actions=actions_of(handlers))

    backlog = BacklogMonitor(store)

    def ready(*, verbose: bool) -> str:
        return readiness(store, backlog, None, verbose=verbose)

    if wire is not None:
        return run_stdio(server, wire, ends=ProcessEnd(close=store.close), grace=1)
    with listening("127.0.0.1", 0) as bound:
        return run_http(HttpSite(server, ready), bound, ends=ProcessEnd(close=store.close), grace=1)


sys.exit(main())
