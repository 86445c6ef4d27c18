"""Attacks by whoever can write to Redis: entries of the queue are hints, and the database decides what is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry, Finish
from duetime.scheduler.queue.redis.codec import needs_of
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings

from tests.flow.waiting import eventually

BOB, ANN = Principal("globex", "bob"), Principal("acme", "ann")
RAN: list[str] = []


@handler("count")
def count(ctx: Context) -> Done:
    RAN.append(ctx.run_id)
    return Done("counted")


class Attacked:
    """A server and a worker on a queue that somebody else writes to as well."""

    def __init__(self, server: App, queue: RedisQueue, client: redis.Redis) -> None:
        self.server, self.queue, self.client = server, queue, client

    def schedule(self, title: str, when: str, by: Principal = BOB) -> TaskRecord:
        return self.server.scheduler.schedule(title, when=when, action="count", by=by).record

    def still_runs(self, title: str) -> None:
        made = self.schedule(title, "now")
        eventually(lambda: made.run.id in RAN, f"the run after: {title}")


@pytest.fixture
def attacked(migrated_postgres_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Attacked]:
    RAN.clear()
    name = f"attacked-{tmp_path.name[-20:].replace('_', '-')}"
    settings = Settings(
        database_url=migrated_postgres_url,
        redis_url=valkey_url,
        redis_namespace=name,
        desktop_notifications="off",
        timezone="UTC",
        yield_to_load=False,
    )
    with (
        build(settings, role=Role.SERVE, handlers=[count]) as server,
        build(settings, role=Role.WORK, handlers=[count]) as worker,
        redis.Redis.from_url(valkey_url) as client,
    ):
        server.start()
        worker.start()
        queue = RedisQueue(valkey_url, namespace=name)
        yield Attacked(server, queue, client)
        queue.close()


def entry(run_id: str, **values: Any) -> Entry:
    return replace(Entry(run_id, 0.0, tenant="globex", action="count"), **values)


def test_only_what_the_database_allows_is_run(attacked: Attacked) -> None:
    """Runs that are cancelled, not due, done, another tenant's or nobody's are granted, and never started."""
    attacked.still_runs("first")
    done = RAN[0]
    cancelled = attacked.schedule("cancelled", "in 1 hour")
    attacked.server.scheduler.cancel(cancelled.task.id, by=BOB)
    later, theirs = attacked.schedule("later", "in 1 hour"), attacked.schedule("theirs", "in 1 hour", ANN)
    forged = [
        cancelled.run.id,
        later.run.id,
        theirs.run.id,
        done,
        "r_unknown",
        "",
        "x" * 5_000,
        "r_'; DROP TABLE runs; --",
    ]
    forged += ["r_\0", "\0", "r_\ud7ff\U0010ffff", "../../etc/passwd", '{"r": 1}', "r_%s%n", later.task.id]
    for at, run_id in enumerate(forged):
        attacked.queue.put([entry(run_id)])
        if at % 5 == 0:
            attacked.still_runs(f"after {run_id[:20]!r}".replace("\0", "0"))
    other = later.run.id
    for number, changed in enumerate((
        entry(f"{other}1", tier=1, key=-1e300), entry(other, action="webhook"), entry(other, tenant="acme"),
        entry(other, tenant="../x|y\u2028"), entry(other, needs={"no-such-pool": 10**12}), entry(other, created=1e300),
        entry(other, delay=-1e9), entry(other, key=float("-inf")),
    )):  # fmt: skip
        attacked.queue.put([changed])
        attacked.queue.cancel(changed.run_id) if number % 2 else None
    attacked.still_runs("after forged entries")
    assert not (set(forged) - {done}) & set(RAN)
    gone = [run_id for run_id in forged if run_id not in {later.run.id, theirs.run.id}]
    eventually(lambda: not any(map(attacked.queue.explain, gone)), "the forged entries to leave the queue")
    assert RAN.count(done) == 1
    kept = [attacked.server.scheduler.get(each.task.id, by=by).record.run for each, by in ((later, BOB), (theirs, ANN))]
    assert [(run.state, run.attempt) for run in kept] == [(State.SCHEDULED, 0)] * 2


def test_a_forged_token_ends_nothing(attacked: Attacked) -> None:
    """An invented fence ends no run and keeps none."""
    attacked.still_runs("first")
    [run_id] = RAN
    ended = [Finish(run_id, token) for token in ("", "0", "forged", "x" * 5_000, "\0")]
    assert attacked.queue.finish("w", ended) == {run_id}
    assert attacked.queue.renew("w", {run_id: "forged", "r_unknown": ""}, 60_000) == {run_id, "r_unknown"}
    assert not attacked.queue.give_back("w", run_id, "forged")
    attacked.still_runs("after forged tokens")


def test_garbage_in_each_key_stops_nobody(attacked: Attacked) -> None:
    """Values of another type, of another shape, and none: what is scheduled afterwards is run, once."""
    attacked.still_runs("first")
    later = attacked.schedule("later", "in 1 hour")
    fill = list(attacked.client.scan_iter(f"{attacked.queue._key}:*:runs"))
    place = (fill[0] if fill else f"{attacked.queue._key}:1:runs".encode()).decode().rsplit(":", 1)[0]
    packed = b"\x94\xa93||count|" + b"\xcb" + b"\0" * 8 + b"\xcb" + b"\0" * 8 + b"\xcb" + b"\0" * 8
    for name in ("delayed", "leases", "timers", "heads:3", "heads:3@count", "turns:3", "willing", "patience"):
        attacked.client.zadd(f"{place}:{name}", {b"\xc1garbage": 0.0, later.run.id.encode(): 0.0, b"": 1.0})
    attacked.still_runs("after strange members")
    attacked.client.hset(f"{place}:runs", mapping={later.run.id: packed, "garbage": b"\xc1", "r_x": b"", "": b"\x90"})
    attacked.still_runs("after strange runs")
    for name in ("took:w", "said:x:1"):
        attacked.client.set(f"{place}:{name}", b"\xc1garbage")
    attacked.client.hset(f"{place}:pools", mapping={"gpu": b"\xc1", "": b"x"})
    attacked.still_runs("after strange pools")
    for name in ("runs", "heads:3", "delayed", "leases", "limits"):
        attacked.client.delete(f"{place}:{name}")
        attacked.client.set(f"{place}:{name}", "of another type")
    attacked.still_runs("after keys of other types")
    assert later.run.id not in RAN
    assert len(RAN) == len(set(RAN))


def test_a_need_of_another_form_in_redis_is_none() -> None:
    """Found by the fuzzer: such a class made the take of a worker end as a defect."""
    for needs in (
        "gpu=1,tpm",
        "gpu=1,tpm=",
        "gpu=1,=7",
        "gpu=1,tpm=x",
        "tpm=1=2,gpu=1",
        "gpu=1,a=-1",
        f"gpu=1,a={'9' * 5_000}",
    ):
        assert needs_of(f"3|!acme|resize|{needs}") == {"gpu": 1}, needs
