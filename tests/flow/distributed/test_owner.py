"""One queue in Redis is for one database: two installations with the same namespace are told, a move is not held up."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import redis
from duetime.scheduler.nodes.member import Member
from duetime.scheduler.queue import Entry, QueueLost, QueueTaken
from duetime.scheduler.queue.redis.members import MEMBER_ALIVE_S, NamespaceMembers
from duetime.scheduler.queue.redis.ownership import NamespaceClaim
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.store import open_store
from duetime.server.app import Role, build
from duetime.server.doctor.distributed import keys_of_members, namespace_check
from duetime.server.doctor.secrets import secrets_check
from duetime.server.settings.model import Settings

from tests import services


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
    assert "in use by another database" in found[1].finding
    mine._client.delete(f"{{{tmp_path.name}}}:used")  # as it is 15 s after the last process of it
    theirs.claim()
    with pytest.raises(QueueLost):
        queue.explain("r_1")
    with pytest.raises(QueueTaken):
        mine.claim()
    for each in (queue, mine, theirs):
        each.close()


def test_a_user_without_the_right_to_identify_the_database_compares_nothing(valkey_url: str, tmp_path: Path) -> None:
    shared = "postgresql+psycopg://localhost/duetime"
    settings = Settings(database_url=shared, redis_url=valkey_url, redis_namespace=tmp_path.name, timezone="UTC")
    with closing(NamespaceClaim(valkey_url, namespace=tmp_path.name, database="1/a")) as used:
        used.claim()
        found = namespace_check(settings, Mock(identity=lambda: ""))
    assert found.verdict.value == "note"
    assert "may not read the database's identity" in found.finding
    assert "GRANT EXECUTE ON FUNCTION pg_control_system()" in found.advice


def test_each_database_of_a_server_has_a_name_of_its_own(migrated_postgres_url: str, tmp_path: Path) -> None:
    opened = open_store(migrated_postgres_url)
    assert re.fullmatch(r"\d+/\d+/public", opened.identity())
    opened.close()
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as file:
        assert file.identity() == ""


# --- the members of a namespace -------------------------------------------------------------------------------------

NEW_KEY, OLD_KEY = (base64.b64encode(letter * 32).decode() for letter in (b"n", b"o"))


def test_the_doctor_names_servers_that_lack_the_first_key_of_secrets(
    migrated_postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    common = {"database_url": migrated_postgres_url, "redis_url": valkey_url, "redis_namespace": tmp_path.name}
    keys = (f"{NEW_KEY} {OLD_KEY}", OLD_KEY, None)
    rotated, old, none = (
        Settings.model_validate({**common, "timezone": "UTC", "secret_keys": each, "desktop_notifications": "off"})
        for each in keys
    )
    with (
        build(rotated, role=Role.SERVE) as here,
        closing(NamespaceMembers(valkey_url, namespace=tmp_path.name)) as members,
    ):
        here.start()
        here.store.secrets.set("local", "crm", "a value of a secret", by="ann")
        with build(old, role=Role.SERVE) as first, build(none, role=Role.SERVE) as second:
            for app in (first, second):
                app.start()
            lacking = {
                name for name, key_ids in members.alive().items() if here.store.secrets.key_ids[0] not in key_ids
            }
            found = secrets_check(partial(keys_of_members, rotated), here.store)
            assert len(lacking) == 2
            assert (found.verdict.value, all(name in found.finding for name in lacking)) == ("note", True)
            assert "DUETIME_SECRET_KEYS" in found.advice
        found = secrets_check(partial(keys_of_members, rotated), here.store)
        assert found.finding == "1 secret, each can be decrypted", "those that lacked it have stopped"


def test_a_member_that_no_longer_reports_is_forgotten(valkey_url: str, tmp_path: Path) -> None:
    with closing(NamespaceMembers(valkey_url, namespace=tmp_path.name)) as members:
        members.report("w-1", ["k1", "k2"])
        members._client.zadd(members._key, {'["w-2"]': time.time() - MEMBER_ALIVE_S - 1})
        assert members.alive() == {"w-1": ("k1", "k2")}
        members.report("w-1", ["k1", "k2"])
        assert members._client.zcard(members._key) == 1
        members._client.zadd(members._key, {"of something else": time.time() + 60})
        assert members.alive() == {}


def test_a_key_that_something_else_wrote_stops_no_process(
    migrated_postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    with closing(redis.Redis.from_url(valkey_url)) as client:
        client.set(f"{{{tmp_path.name}}}:members", "of something else")
    settings = Settings(
        database_url=migrated_postgres_url,
        redis_url=valkey_url,
        redis_namespace=tmp_path.name,
        timezone="UTC",
        desktop_notifications="off",
    )
    with build(settings, role=Role.SERVE) as app:
        app.start()
        assert isinstance(app.runner, Member)
        assert app.runner.dispatches
    assert keys_of_members(settings) == {}


# --- a backup that was restored ------------------------------------------------------------------------------------


class Namespace:
    """A queue that is filled, and a claim of it by a database with so many events."""

    def __init__(self, url: str, name: str) -> None:
        self.events: int | None = 7
        self.queue = RedisQueue(url, namespace=name)
        self.fill()
        self.claim = NamespaceClaim(url, namespace=name, database="1/a", last_event=lambda: self.events)

    def fill(self) -> None:
        self.queue.begin_rebuild("me")
        self.queue.put([Entry("r_1", 1.0)])
        self.queue.end_rebuild("me")

    def is_filled(self) -> bool:
        try:
            return self.queue.explain("r_1") is not None
        except QueueLost:
            return False


@pytest.fixture
def namespace(valkey_url: str, tmp_path: Path) -> Iterator[Namespace]:
    found = Namespace(valkey_url, tmp_path.name)
    yield found
    found.queue.close()
    found.claim.close()


def test_a_queue_is_emptied_when_its_database_has_an_older_history(namespace: Namespace) -> None:
    for events in (7, 7, 9):
        namespace.events = events
        namespace.claim.claim()
        assert namespace.is_filled()
    namespace.events = 8
    namespace.claim.claim()
    assert not namespace.is_filled()
    namespace.fill()
    namespace.claim.claim()
    assert namespace.is_filled()


def test_a_database_that_is_away_has_no_other_history(namespace: Namespace) -> None:
    for events in (7, None, 7):
        namespace.events = events
        namespace.claim.claim()
    assert namespace.is_filled()
    namespace.events = None
    namespace.claim.claim()
    namespace.events = 6
    namespace.claim.claim()
    assert not namespace.is_filled()


def test_a_process_on_a_restored_database_fills_the_queue_from_it(
    migrated_postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    settings = Settings(
        database_url=migrated_postgres_url,
        redis_url=valkey_url,
        redis_namespace=tmp_path.name,
        timezone="UTC",
        desktop_notifications="off",
    )
    with closing(RedisQueue(valkey_url, namespace=tmp_path.name)) as queue:
        with build(settings, role=Role.SERVE) as app:
            for title in ("Call John", "Pay the bill"):
                app.scheduler.schedule(title, when="in 1 hour")
            app.start()
            queue.put([Entry("r_lost", 1.0)])
        with build(settings, role=Role.SERVE) as app:
            app.start()
            assert queue.explain("r_lost") is not None
        services.administer(migrated_postgres_url, "SELECT setval('events_id_seq', 1, false); DELETE FROM events")
        with build(settings, role=Role.SERVE) as app:
            app.start()
            assert queue.explain("r_lost") is None


def test_the_key_that_the_operations_page_deletes_empties_the_queue(valkey_url: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")
    [key] = {*re.findall(r"redis-cli del '([^']+)'", page)}
    with closing(RedisQueue(valkey_url, namespace=tmp_path.name)) as queue:
        queue.begin_rebuild("me")
        queue.put([Entry("r_1", 1.0)])
        queue.end_rebuild("me")
        assert queue.explain("r_1") is not None
        with closing(redis.Redis.from_url(valkey_url)) as client:
            client.delete(key.replace("duetime", tmp_path.name))
        with pytest.raises(QueueLost):
            queue.explain("r_1")


@pytest.mark.parametrize("role", [Role.SERVE, Role.WORK])
def test_a_process_of_a_shared_installation_makes_no_folder_in_a_home_that_cannot_be_written(
    migrated_postgres_url: str, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    (tmp_path / "home").write_text("not a folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    settings = Settings(
        database_url=migrated_postgres_url,
        redis_url=valkey_url,
        redis_namespace=tmp_path.name,
        timezone="UTC",
        desktop_notifications="off",
    )
    with build(settings, role=role) as app:
        app.start()
        assert app.scheduler.schedule("Call John", when="in 1 hour").created
