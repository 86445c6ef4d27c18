"""Schedule from Python, with a handler of your own, and wait for the outcome.

Run it with `python examples/from_python.py`: it uses a database of its own in a temporary folder.
"""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta
from pathlib import Path

from duetime import Context, Done, Scheduler, Settings, handler
from pydantic import BaseModel


class Greeting(BaseModel):
    """The payload: checked when a task is scheduled, not when it runs."""

    name: str


@handler("greet", payload=Greeting, time_limit=5)
def greet(ctx: Context, payload: Greeting) -> Done:
    """Say hello."""
    print(f"Hello, {payload.name}! (attempt {ctx.attempt} of {ctx.task_id})")
    return Done(summary=f"greeted {payload.name}")


def main() -> None:
    """Schedule a greeting in 200 ms and a daily one, wait for the first, list both, and cancel the daily one."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{Path(folder) / 'duetime.db'}", timezone="Europe/Berlin")
        with Scheduler.open(settings, handlers=[greet]) as scheduler:
            soon = timedelta(milliseconds=200)
            once = scheduler.schedule("Greet Ada", when=soon, action="greet", payload={"name": "Ada"})
            daily = scheduler.schedule("Greet all", repeat="every day at 9:00", action="greet", payload={"name": "all"})
            while (run := scheduler.get(once.record.task.id).record.run).ended_at is None:
                time.sleep(0.05)
            print(f"The outcome: {run.state}, {run.summary}")
            for view in scheduler.list().views:
                print(f"{view.record.task.title}: {view.record.run.state}")
            scheduler.cancel(daily.record.task.id, reason="only a demonstration")


if __name__ == "__main__":
    main()
