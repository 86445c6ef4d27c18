"""The table of the logs of runs."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, table


class RunLogRow(Base):
    """Lines that the handler of an attempt logged, one after the other: JSON arrays, one in each line of `text`.

    `first` is the number of the first of `lines`, `cut` how many before it were not kept, `at` when the newest was
    logged. Rows that are not `last` grow until they have 8 KiB; those that are came with the end of the attempt, and
    may repeat lines. Its run is no foreign key: to insert it would wait for whoever has locked the run.
    """

    __tablename__ = "run_logs"

    run_id: str = column(primary_key=True)
    attempt: int = column(primary_key=True, autoincrement=False)
    first: int = column(primary_key=True, autoincrement=False)
    last: bool = column(primary_key=True)
    lines: int
    cut: int
    size: int
    at: datetime
    text: Said


run_logs = table(RunLogRow)
