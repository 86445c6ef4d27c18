"""PostgreSQL's indexes of tables that hold rows: built after an upgrade, while others read and write.

An upgrade locks all tables until its transaction ends, and an index of a million rows takes a second. So its migrations
leave these indexes out, and `absent_indexes` builds whatever the models have and the database lacks. An index that
guards a rule (a unique one) is made at once: no row may come in between. Killed halfway, `duetime migrate` continues.
"""

from __future__ import annotations

from typing import Any

from alembic.ddl.postgresql import PostgresqlImpl
from sqlalchemy import Index


class OnlineIndexes(PostgresqlImpl):
    """Alembic's statements for PostgreSQL, but for the indexes of `held_tables`."""

    __dialect__ = "postgresql"

    def create_index(self, index: Index, **options: Any) -> None:
        if index.unique or index.table is None or index.table.name not in self.context_opts["held_tables"]:
            super().create_index(index, **options)

    def drop_index(self, index: Index, **options: Any) -> None:
        super().drop_index(index, **{**options, "if_exists": True})  # one that was left out is not there
