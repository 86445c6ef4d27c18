"""One queue in Redis is for one database: two installations with the same namespace are told, a move is not held up."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from duetime.scheduler.queue import QueueLost, QueueTaken
from duetime.scheduler.queue.redis.ownership import NamespaceClaim
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.store import open_store
from duetime.server.doctor.distributed import namespace_check
from duetime.server.settings.model import Settings


def test_two_databases_do_not_share_a_queue_and_one_that_is_not_used_any_more_is_taken_over(
    valkey_url: str, tmp_path: Path
) -> None:
    queue = RedisQueue(valkey_url, namespace=tmp_path.name)
    queue.begin_rebuild("me")
    queue.end_rebuild("me")
    mine, theirs = (NamespaceClaim(valkey_url, namespace=tmp_path.name, database=name) for name in ("1/a", "1/b"))
    for _ in range(2):
        mine.claim()
        with pytest.raises(QueueTaken, match=f"DUETIME_REDIS_NAMESPACE={tmp_path.name}-staging"):
            theirs.claim()
    assert queue.explain("r_1") is None, "it stays as it was filled"
    shared = "postgresql+psycopg://localhost/duetime"
    settings = Settings(database_url=shared, redis_url=valkey_url, redis_namespace=tmp_path.name, timezone="UTC")
    found = [namespace_check(settings, Mock(identity=lambda name=name: name)) for name in ("1/a", "1/b")]
    assert [check.verdict.value for check in found] == ["ok", "wrong"]
    assert "in use by another database" in found[1].said
    mine._client.delete(f"{{{tmp_path.name}}}:used")  # as it is 15 s after the last process of it
    theirs.claim()
    with pytest.raises(QueueLost):
        queue.explain("r_1")
    with pytest.raises(QueueTaken):
        mine.claim()
    for each in (queue, mine, theirs):
        each.close()


def test_who_may_not_ask_which_database_it_is_compares_nothing(valkey_url: str, tmp_path: Path) -> None:
    shared = "postgresql+psycopg://localhost/duetime"
    settings = Settings(database_url=shared, redis_url=valkey_url, redis_namespace=tmp_path.name, timezone="UTC")
    with closing(NamespaceClaim(valkey_url, namespace=tmp_path.name, database="1/a")) as used:
        used.claim()
        found = namespace_check(settings, Mock(identity=lambda: ""))
    assert found.verdict.value == "note"
    assert "may not read the database's identity" in found.said
    assert "GRANT EXECUTE ON FUNCTION pg_control_system()" in found.advice


def test_each_database_of_a_server_has_a_name_of_its_own(migrated_postgres_url: str, tmp_path: Path) -> None:
    opened = open_store(migrated_postgres_url)
    assert re.fullmatch(r"\d+/\d+/public", opened.identity())
    opened.close()
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as file:
        assert file.identity() == ""
