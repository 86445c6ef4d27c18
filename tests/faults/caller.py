"""A process that makes one call, and is killed in the middle of it: before it is stored, or before it is answered.

    python -m tests.faults.caller before|after|uncut send_event|fire|pause < ARGUMENTS

It says `up`, and reads the arguments, a line of JSON, when the test lets it go on. It prints the answer of a call that
is not cut off. The installation is that of the environment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from duetime.scheduler.bulk.change import BulkVerb
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.app import build
from duetime.server.settings.model import Settings

BEFORE, AFTER, UNCUT = "before", "after", "uncut"
CALLER = Principal("tenant-0", "alice")


def send_event(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    return asdict(scheduler.send_event(**arguments, by=CALLER))


def fire(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    address = scheduler.fire_address(arguments["token"])
    return asdict(scheduler.fire(address, arguments["data"], event_id=arguments["event_id"]))


def pause(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    done = scheduler.change_many(BulkVerb.PAUSE, **arguments, by=CALLER)
    return {"changed": len(done.outcomes), "undo": done.undo, "repeated": done.repeated}


CALLS: dict[str, Callable[[Scheduler, dict[str, Any]], dict[str, Any]]] = {
    "send_event": send_event,
    "fire": fire,
    "pause": pause,
}


def die_around_the_next_write(store: Store, cut: str) -> None:
    """Let this process die at its next transaction: when all is done but the commit, or right behind that."""
    write = store._database.write

    def cut_off(work: Callable[[Any], Any], **how: Any) -> Any:
        def stored(connection: Any) -> Any:
            found = work(connection)
            if cut == BEFORE:
                _die()
            return found

        write(stored, **how)
        _die()

    store._database.write = cut_off  # type: ignore[method-assign]  # that is the fault


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(cut: str, name: str) -> None:
    app = build(Settings())
    print("up", flush=True)  # noqa: T201 - the tests wait for this line
    arguments = json.loads(sys.stdin.readline())
    if cut != UNCUT:
        die_around_the_next_write(app.store, cut)
    print(json.dumps(CALLS[name](app.scheduler, arguments), default=str), flush=True)  # noqa: T201 - as above
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
