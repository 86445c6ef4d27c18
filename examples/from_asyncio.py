"""Schedule from an asynchronous program, and wait for the outcome.

Run it with `python examples/from_asyncio.py`: it uses a database of its own in a temporary folder.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from duetime import AsyncScheduler, Context, Done, Settings, TaskView, handler


@handler("greet")
async def greet(ctx: Context) -> Done:
    """Say hello."""
    return Done(summary=f"greeted as {ctx.title!r} asks")


async def ended(scheduler: AsyncScheduler, task_id: str) -> TaskView:
    """Look until the run of a task has ended."""
    while (view := await scheduler.get(task_id)).record.run.ended_at is None:  # noqa: ASYNC110 - any process may run it
        await asyncio.sleep(0.05)
    return view


async def main() -> None:
    """Schedule two greetings at once, wait for both, and give up on a third."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{Path(folder) / 'duetime.db'}", timezone="Europe/Berlin")
        async with AsyncScheduler.open(settings, handlers=[greet], threads=2) as scheduler:
            soon = timedelta(milliseconds=200)
            views = await asyncio.gather(
                *(scheduler.schedule(f"Greet {name}", when=soon, action="greet") for name in ("Ada", "Grace"))
            )
            for view in await asyncio.gather(*(ended(scheduler, view.record.task.id) for view in views)):
                print(f"{view.record.task.title}: {view.record.run.state}, {view.record.run.summary}")
            later = await scheduler.schedule("Greet all", repeat="every day at 9:00", action="greet")
            await scheduler.cancel(later.record.task.id, reason="only a demonstration")
            print(f"Greet all: {(await scheduler.get(later.record.task.id)).record.run.state}")


if __name__ == "__main__":
    asyncio.run(main())
