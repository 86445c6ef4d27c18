"""An installation under load is upgraded process by process, and every task that was answered for runs once.

The long one: `python -m tests.migrations.rolling`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrations.old_code import SCHEMA_25, unpack
from tests.migrations.rolling import Plan, Rollout

pytestmark = pytest.mark.postgres


def test_a_rolling_upgrade_under_load_loses_no_task_and_runs_none_twice(
    postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    old = unpack(SCHEMA_25)
    if old is None:
        pytest.skip("the history of the repository is not here")
    found = Rollout(tmp_path, old, postgres_url, valkey_url, Plan(rate=5, settled_s=0.5)).play("0025")
    assert found.broken == []
    assert set(found.sorts) == {"ok"}
    assert (found.replaced, found.most_held > 0) == (2, True)
