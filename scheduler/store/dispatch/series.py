"""Series that continue by themselves, as the dispatcher calls for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame, Only
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements.series import overtake, pause_ends
from duetime.scheduler.store.statements.series.overtake import Overtaken

_NOT_OVERTAKEN: Final = Blame("run", "the next occurrence cannot overtake it", runs)
_NOT_RESUMED: Final = Blame("task", "cannot resume it at the end of its pause", tasks)


class SeriesTimers:
    """The series of tasks that recur. Any number of processes may call; a series that cannot continue holds up none."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._now = now
        self._commits = commits

    def overtake(self, *, limit: int) -> Overtaken:
        """Let the next occurrence overtake at most `limit` open runs whose policy says so."""

        def work(only: Only) -> Overtaken:
            return self._commits.write(lambda connection: overtake.overtake(connection, only, limit, self._now()))

        due = partial(overtake.due, limit=limit, now=self._now())
        moved, cancelled = list[str](), list[str]()
        for found in row_by_row.each(self._database, work, due, _NOT_OVERTAKEN):
            moved += found.tasks
            cancelled += found.cancelled
        return Overtaken(moved, cancelled)

    def end_pauses(self, *, limit: int) -> list[str]:
        """Resume at most `limit` tasks whose pause is over, and return them."""

        def work(only: Only) -> list[str]:
            return self._commits.write(lambda connection: pause_ends.end_due(connection, only, limit, self._now()))

        due = partial(pause_ends.due, limit=limit, now=self._now())
        return row_by_row.collect(self._database, work, due, _NOT_RESUMED)
