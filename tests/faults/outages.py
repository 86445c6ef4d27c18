"""The plays that break Redis, PostgreSQL, what lies between, and the clock: on a shared installation only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial

import psycopg
from duetime.scheduler.queue import Entry
from sqlalchemy import make_url
from valkey import Valkey

from tests.faults.proxy import Proxy
from tests.faults.scenarios import SHARED, Play, scenario
from tests.faults.world import CALL_S, PATIENCE_S, Node, World, has_ended
from tests.flow.waiting import eventually
from tests.services import OwnPostgres, OwnValkey

SETTLING_S = 1.0
"""Seconds of undisturbed work before and after a fault."""

FREQUENT_SCRIPT_COUNT = 4
"""Scripts that are called again and again: put, take, finish and renew."""


def _valkey(world: World) -> OwnValkey:
    assert world.ground.valkey is not None
    return world.ground.valkey


def _postgres(world: World) -> OwnPostgres:
    assert world.ground.postgres is not None
    return world.ground.postgres


def _more_hits(proxy: Proxy, than: int) -> bool:
    return proxy.hits > than


def _both_work(world: World) -> None:
    """Start two processes, and wait until both have had an effect."""
    _until_working(world, [world.start(), world.start()])


def _calls_are_quick(world: World) -> None:
    assert world.slowest_call < CALL_S, f"a schedule call took {world.slowest_call:.1f} s"


# --- Redis ------------------------------------------------------------------------------------------------------------


@scenario("FLUSHALL in the middle of the work", SHARED)
def flushed(world: World) -> None:
    with world.traffic():
        _both_work(world)
        for _ in range(3):
            _flush(world)
    world.rest()
    _calls_are_quick(world)


def _flush(world: World) -> None:
    with Valkey.from_url(_valkey(world).url) as client:
        keys, busy = client.dbsize(), len(world.running())
        client.flushall()
    world.broke("FLUSHALL", f"{keys} keys gone, {busy} runs under way" if keys else "", anyone=True)
    time.sleep(SETTLING_S)


@scenario("SCRIPT FLUSH in the middle of the work", SHARED)
def scripts_flushed(world: World) -> None:
    with world.traffic():
        _both_work(world)
        _flush_scripts(world)
    world.rest()


def _flush_scripts(world: World) -> None:
    with Valkey.from_url(_valkey(world).url) as client:
        scripts = client.info("memory")["number_of_cached_scripts"]
        client.script_flush()
    world.broke("SCRIPT FLUSH", f"{scripts} scripts gone" if scripts else "")
    time.sleep(SETTLING_S)


@scenario("Redis is killed and comes back empty", SHARED)
def redis_killed(world: World) -> None:
    with world.traffic():
        _both_work(world)
        _kill_redis(world)
    world.rest()
    _calls_are_quick(world)


def _kill_redis(world: World) -> None:
    with Valkey.from_url(_valkey(world).url) as client:
        keys, began = client.dbsize(), time.time()
    _valkey(world).kill()
    time.sleep(2)
    _valkey(world).start()
    world.broke("kill -9 of Redis", f"{keys} keys gone, away for 2 s" if keys else "", began=began, anyone=True)
    time.sleep(SETTLING_S)


def _redis_paused(seconds: float) -> Play:
    def play(world: World) -> None:
        with world.traffic(every=0.1):
            _both_work(world)
            before, began = len(world.acknowledged), time.time()
            _valkey(world).pause()
            time.sleep(seconds)
            calls = len(world.acknowledged) - before
            _valkey(world).resume()
            evidence = (
                f"Redis stood still for {seconds:g} s, {calls} schedule calls answered during it" if calls else ""
            )
            world.broke("SIGSTOP of Redis", evidence, began=began, anyone=True)
            time.sleep(SETTLING_S)
        world.rest()
        _calls_are_quick(world)

    return play


for _seconds in (8.0, 30.0):
    scenario(f"Redis stands still for {_seconds:g} s", SHARED, lease=30.0)(_redis_paused(_seconds))


@scenario("the reply of each script is lost", SHARED, proxied=True)
def replies_lost(world: World) -> None:
    with world.traffic():
        _both_work(world)
        time.sleep(world.lease / 2)  # so that leases are renewed
        _lose_replies(world)
    world.rest()


def _lose_replies(world: World) -> None:
    """Lose the next reply of every script that has been called so far; those of a rebuild need a rebuild for it."""
    proxy = world.ground.redis_proxy
    assert proxy is not None
    scripts, began, hits = sorted(proxy.scripts), time.time(), proxy.hits
    for script in scripts:
        proxy.cut_reply(script)
    with suppress(AssertionError):  # what is left by then is called by rebuilds alone
        eventually(lambda: proxy.hits - hits == len(scripts), "every script to be called", world.lease)
    _flush(world)
    with suppress(AssertionError):
        eventually(lambda: proxy.hits - hits == len(scripts), "every script to be called", world.lease)
    lost = proxy.hits - hits
    evidence = f"replies of {lost} of {len(scripts)} scripts lost" if lost >= FREQUENT_SCRIPT_COUNT else ""
    world.broke("lost replies of Redis", evidence, began=began, anyone=True)


@scenario("everything that can befall Redis and PostgreSQL, in turn", SHARED, quick=(SHARED,), proxied=True)
def everything(world: World) -> None:
    with world.traffic(every=0.05):
        _both_work(world)
        _flush_scripts(world)
        _flush(world)
        _kill_redis(world)
        _lose_replies(world)
        _restart_postgres(world)
        _lose_commits(world)
    world.rest()
    _calls_are_quick(world)


@scenario("the network to Redis is cut, and swallows everything", SHARED, proxied=True)
def partitioned(world: World) -> None:
    proxy = world.ground.redis_proxy
    assert proxy is not None
    with world.traffic(every=0.1):
        _both_work(world)
        for mode in ("down", "blackhole", "latency:500"):
            effects, began = sum(world.effects().values()), time.time()
            proxy.mode = mode
            time.sleep(4)
            during = sum(world.effects().values()) - effects
            proxy.mode = "ok"
            world.broke(f"network {mode}", f"{mode} for 4 s, {during} effects during it", began=began, anyone=True)
            time.sleep(SETTLING_S)
    world.rest()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@scenario("PostgreSQL is restarted in immediate mode", SHARED)
def postgres_restarted(world: World) -> None:
    with world.traffic():
        _both_work(world)
        for _ in range(2):
            _restart_postgres(world)
    world.rest()


def _restart_postgres(world: World) -> None:
    sessions, began = len(_postgres(world).backends()), time.time()
    _postgres(world).restart_at_once()
    evidence = f"{sessions} sessions ended" if sessions else ""
    world.broke("restart of PostgreSQL", evidence, began=began, anyone=True)
    time.sleep(SETTLING_S)


@scenario("PostgreSQL is away for 8 s", SHARED)
def postgres_away(world: World) -> None:
    with world.traffic(every=0.1):
        _both_work(world)
        sessions, began = len(_postgres(world).backends()), time.time()
        _postgres(world).kill(signal.SIGQUIT)
        time.sleep(8)
        _postgres(world).start()
        time.sleep(SETTLING_S)
        evidence = f"{sessions} sessions ended, {world.repeated_calls} schedule calls were told to come again"
        world.broke("PostgreSQL away", evidence if world.repeated_calls else "", began=began, anyone=True)
    world.rest()


@scenario("single backends of PostgreSQL are terminated, and one is killed", SHARED)
def backends_killed(world: World) -> None:
    with world.traffic():
        _both_work(world)
        began, ended = time.time(), 0
        plain = make_url(_postgres(world).url).set(drivername="postgresql").render_as_string(hide_password=False)
        with closing(psycopg.connect(plain, autocommit=True)) as connection:
            for backend in _postgres(world).backends()[:4]:
                [(gone,)] = connection.execute("SELECT pg_terminate_backend(%s)", [backend]).fetchall()
                ended += gone
                time.sleep(0.3)
        os.kill(_postgres(world).backends()[0], signal.SIGKILL)
        time.sleep(SETTLING_S)
        world.broke(
            "backends killed", f"{ended} sessions terminated, 1 killed" if ended else "", began=began, anyone=True
        )
    world.rest()


@scenario("the reply of COMMIT is lost", SHARED, proxied=True)
def commits_lost(world: World) -> None:
    with world.traffic():
        _both_work(world)
        _lose_commits(world)
    world.rest()


STORING = (b'[["r_', b'"fence":')
"""Words sent with the statements that start and settle, each of which is a transaction of its own."""


def _lose_commits(world: World) -> None:
    proxy = world.ground.postgres_proxy
    assert proxy is not None
    began = time.time()
    for storing in STORING * 4:
        hits = proxy.hits
        proxy.cut_reply(storing)
        eventually(partial(_more_hits, proxy, hits), f"what stores with {storing!r}", 20)
        time.sleep(0.2)
    world.broke("lost replies of COMMIT", f"{proxy.hits} commits whose reply was lost", began=began, anyone=True)


# --- many of the same -------------------------------------------------------------------------------------------------


@scenario("two servers and two workers dispatch; one of each stands still", SHARED)
def dispatchers_frozen(world: World) -> None:
    servers = [world.start(serve=True), world.start(serve=True)]
    workers = [world.start(), world.start()]
    with world.traffic():
        _until_working(world, workers)
        began = time.time()
        os.kill(servers[0].pid, signal.SIGSTOP)
        with world.frozen(workers[0]):
            time.sleep(world.lease * 2)
        os.kill(servers[0].pid, signal.SIGCONT)
        world.broke("SIGSTOP of a server", f"stood still for {time.time() - began:.1f} s", began=began)
    world.rest()


@scenario("the same message comes twice, while it runs and after its end", SHARED, quick=(SHARED,))
def message_twice(world: World) -> None:
    world.start()
    world.start()
    [task_id] = world.schedule(1, payload={"seconds": 2.0})
    eventually(world.running, "the run to start", PATIENCE_S)
    [run_id] = world.running()
    queue, seen = world.queue(), []
    again = Entry(run_id, key=0)
    queue.put([again])
    seen.append("while it ran")
    eventually(lambda: has_ended(world, task_id), "the run to end")
    eventually(lambda: queue.explain(run_id) is None, "the queue to forget it")
    for _ in range(3):
        if queue.put([again]):
            seen.append("after its end")
        eventually(lambda: queue.explain(run_id) is None, "the queue to forget it again")
    world.rest()
    world.broke("a message twice", f"{len(seen)} further messages: {', '.join(seen)}" if len(seen) == 4 else "")
    assert world.effects()[run_id] == 1


# --- clocks -----------------------------------------------------------------------------------------------------------


@scenario("the clock of one worker is an hour ahead", SHARED)
def clock_ahead(world: World) -> None:
    wrong, _ = world.start(clock=3600), world.start()
    later = world.schedule(5, when="in 30 minutes")
    world.pending.update(later)
    with world.traffic():
        eventually(
            lambda: wrong.process.poll() is not None or world.in_the_middle(wrong.pid), "the wrong clock to matter", 60
        )
        if wrong.process.poll() is None:
            world.kill(wrong, "kill -9 of the worker whose clock is wrong")
            evidence = f"process {wrong.pid} ran {sum(line.pid == wrong.pid for line in world.ledger())} steps"
        else:
            evidence = f"refused to start: {wrong.log.read_text().strip()[-200:]}"
        world.broke("a clock an hour ahead", evidence)
    world.rest()
    assert not any(has_ended(world, each) for each in later), "something ran half an hour early"


# --- deployments ------------------------------------------------------------------------------------------------------


@scenario("a rolling restart: SIGTERM to each process, under load", SHARED)
def rolling_restart(world: World) -> None:
    nodes = [world.start(), world.start()]
    codes: list[int] = []
    with world.traffic():
        _until_working(world, nodes)
        for _ in range(4):
            nodes.append(world.start())
            _until_working(world, nodes)
            oldest = nodes.pop(0)
            oldest.process.terminate()
            codes.append(oldest.process.wait(PATIENCE_S))
    world.rest()
    evidence = f"{len(codes)} processes ended by SIGTERM under load, with the codes {sorted(set(codes))}"
    world.broke("SIGTERM", evidence if set(codes) == {0} else "")


@scenario("kill -9 of one of two processes of a worker", SHARED)
def child_killed(world: World) -> None:
    parent = world.start(processes=2)
    with world.traffic():
        eventually(lambda: len(_pids(world)) == 2, "both processes to work", PATIENCE_S)
        victim = min(_pids(world))
        eventually(partial(world.stopped_in_the_middle, victim), "work in the middle of which to kill", PATIENCE_S)
        began, cut = time.time(), len(world.in_the_middle(victim))
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len(_pids(world)) == 3, "another process to work in its place", PATIENCE_S)
        replaced = parent.process.poll() is None
        evidence = f"process {victim} died in {cut} runs, and another took its place" if replaced else ""
        world.broke("kill -9", evidence, began=began, ended=began, deaths=(victim,))
    world.rest()


def _pids(world: World) -> set[int]:
    return {line.pid for line in world.ledger()}


def _until_working(world: World, nodes: Sequence[Node]) -> None:
    eventually(lambda: {node.pid for node in nodes} <= _pids(world), "all to work", PATIENCE_S)
