"""Columns of several tables become the fields of one value."""

from __future__ import annotations

import pytest
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.store.schema.rows import ordered
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements.endings.claimed_run import Claimed


@pytest.mark.parametrize("value", [ReadyRun, Claimed])
def test_columns_stand_in_the_order_of_the_fields_however_they_are_given(value: type[ReadyRun | Claimed]) -> None:
    found = ordered(value, tenant=runs.c.tenant, run_id=runs.c.id, task_id=runs.c.task_id)
    assert [column.name for column in found] == ["id", "task_id", "tenant"]


def test_columns_that_leave_out_a_field_before_others_are_refused() -> None:
    with pytest.raises(KeyError, match="task_id"):
        ordered(ReadyRun, run_id=runs.c.id, tenant=runs.c.tenant)
