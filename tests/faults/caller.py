"""A process that makes one call, and is killed in the middle of it: before it is stored, or before it is answered.

    python -m tests.faults.caller before|after|uncut send_event|fire|pause|approve|make_ready < ARGUMENTS

It says `up`, and reads the arguments, a line of JSON, when the test lets it go on. `write` among them is the number of
the transaction in which it dies, of a call that has several. It prints the answer of a call that is not cut off. The
installation is that of the environment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from duetime.scheduler.calls.bulk_change import BulkVerb
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.app import build
from duetime.server.settings.model import Settings

BEFORE, AFTER, UNCUT = "before", "after", "uncut"
CALLER = Principal("tenant-0", "alice")
PAUSE_S = 0.1


def send_event(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    return asdict(scheduler.signals.send(**arguments, by=CALLER))


def fire(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    address = scheduler.addresses.find(arguments["token"])
    return asdict(scheduler.addresses.fire(address, arguments["data"], event_id=arguments["event_id"]))


def pause(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    done = scheduler.bulk.change(BulkVerb.PAUSE, **arguments, by=CALLER)
    return {"changed": len(done.outcomes), "undo": done.undo, "repeated": done.repeated}


def approve(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"state": scheduler.approve(**arguments, by=CALLER).record.run.state}


def make_ready(scheduler: Scheduler, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do what a dispatcher does with runs that are due."""
    return {"ready": [run.run_id for run in scheduler._store.claims.make_ready(**arguments)]}


CALLS: dict[str, Callable[[Scheduler, dict[str, Any]], dict[str, Any]]] = {
    "send_event": send_event,
    "fire": fire,
    "pause": pause,
    "approve": approve,
    "make_ready": make_ready,
}


def die_around_a_write(store: Store, cut: str, number: int) -> None:
    """Let this process die at a transaction of its call: when all is done but the commit, or right behind that."""
    write, stored_numbers = store._database.write, list[int]()

    def cut_off(work: Callable[[Any], Any], **how: Any) -> Any:
        if len(stored_numbers) < number - 1:
            passed = write(work, **how)
            stored_numbers.append(len(stored_numbers))
            return passed

        def stored(connection: Any) -> Any:
            found = work(connection)
            if cut == BEFORE:
                _die()
            return found

        found = write(stored, **how)
        _die()
        return found

    store._database.write = cut_off  # type: ignore[method-assign]  # that is the fault


def answer_of(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Make a call, again while the database of a busy machine is busy: nothing is stored then."""
    while True:
        try:
            return call()
        except StoreUnavailable:
            time.sleep(PAUSE_S)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(cut: str, name: str) -> None:
    app = build(Settings())
    print("up", flush=True)  # noqa: T201 - the tests wait for this line
    arguments = json.loads(sys.stdin.readline())
    if cut != UNCUT:
        die_around_a_write(app.store, cut, arguments.pop("write", 1))
    found = answer_of(lambda: CALLS[name](app.scheduler, arguments))
    print(json.dumps(found, default=str), flush=True)  # noqa: T201 - as above
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
