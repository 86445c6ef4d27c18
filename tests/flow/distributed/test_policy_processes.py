"""A change of the policy by a command reaches real workers on PostgreSQL and Redis, also after their queue was lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis
from duetime.server.rest.resources.stats import read_stats, stats_json

from tests import forked
from tests.flow.distributed.test_processes import DUETIME, PATIENCE_S, ROOT, Site, eventually
from tests.flow.distributed.test_processes import site as site  # noqa: PLC0414 - the fixture

pytestmark = [pytest.mark.postgres, pytest.mark.faults]


def said(site: Site, *command: str) -> str:
    done = forked.run([*DUETIME, *command], cwd=ROOT, env=site.environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stats(site: Site) -> dict[str, Any]:
    """Return what the queue says, without a process for each look."""
    return stats_json(*read_stats(site.app.remote_queue, site.app.backlog))


def test_workers_go_by_a_new_policy_within_seconds_and_after_their_queue_was_lost(
    site: Site, tmp_path: Path, valkey_url: str
) -> None:
    site.worker()
    assert stats(site)["policy"] == 0
    said(site, "policy", "set", "shares.low=0.12", "headroom.critical=0.5", "--reason", "reports were late")
    eventually(lambda: stats(site)["policy"] == 1, "the queue to have the shares")
    shown = json.loads(said(site, "stats", "--json"))
    assert shown["policy"] == 1
    assert [row["share"] for row in shown["tiers"]] == [0.3, 0.2, 0.15, 0.12, 0.05]
    eventually(
        lambda: [use["headroom"][1] for use in stats(site)["threads"].values()] == [2], "the worker to keep threads"
    )
    with redis.Redis.from_url(valkey_url) as client:
        client.delete(f"{{{tmp_path.name[:40]}}}")
    eventually(lambda: site.delay() >= 0 and stats(site)["policy"] == 1, "the new queue to have them too")
