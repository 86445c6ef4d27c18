"""Checks of `duetime doctor` where many processes share the work: Redis, the database's clock, the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.stuck_runs import MAX_STUCK_S, RUNS_PER_CHECK, heads, stuck_runs
from duetime.scheduler.foresight.reasons.processes import Claimers
from duetime.scheduler.nodes.heartbeat import DRAINED, DRAINING, RUNNING, is_alive, state_of
from duetime.scheduler.queue import QueueDamaged, QueueLost, QueueTaken, QueueUnavailable
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.store import Store
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.settings.masks import masked
from duetime.server.settings.model import Settings

MIN_REDIS_VERSION = (6, 2)
"""The first Redis that has what the scripts use; every Valkey has."""

MIN_STUCK = timedelta(seconds=MAX_STUCK_S)
REFILL_ADVICE = "A running `duetime worker` or `duetime serve` refills it within 15 seconds."

MAX_CLOCK_SKEW = timedelta(seconds=5)


def redis_check(settings: Settings) -> Check:
    """Look whether Redis answers, is new enough, and keeps what it is given."""
    try:
        examine = import_module("duetime.scheduler.queue.redis.health").examine
    except ModuleNotFoundError:
        return Check(
            "redis", CheckVerdict.WRONG, "its client is not installed.", "Run pip install '.[redis]' in a checkout."
        )
    where = masked(settings.redis_url)
    try:
        health = examine(settings.redis_url)
    except QueueUnavailable as error:
        advice = (
            "Check redis_url with `duetime config`, and that Redis is running. Tasks can be scheduled, but none starts."
        )
        return Check("redis", CheckVerdict.WRONG, f"{where} does not answer ({error}).", advice)
    if health.version < MIN_REDIS_VERSION:
        return Check("redis", CheckVerdict.WRONG, f"{where} is {health.name}.", "Use Redis 6.2 or newer, or Valkey.")
    if health.eviction != "noeviction":
        text = f"{where} ({health.name}) drops keys when its memory is full: maxmemory-policy is {health.eviction}."
        return Check("redis", CheckVerdict.WRONG, text, "Set maxmemory-policy noeviction.")
    return Check("redis", CheckVerdict.OK, f"{where} ({health.name})")


def namespace_check(settings: Settings, store: Store) -> Check:
    """Look whether the queue is that of this database, where the database may say which one it is."""
    database = store.identity()
    if not database:
        text = "cannot check who owns the queue: this PostgreSQL user may not read the database's identity."
        advice = (
            "GRANT EXECUTE ON FUNCTION pg_control_system() to that user, or make sure that no other installation has "
            f"redis_namespace {settings.redis_namespace!r}."
        )
        return Check("namespace", CheckVerdict.NOTE, text, advice)
    owner: Any = import_module("duetime.scheduler.queue.redis.ownership").NamespaceClaim
    mine = owner(settings.redis_url, namespace=settings.redis_namespace, database=database)
    try:
        mine.check()
    except QueueTaken as error:
        return Check("namespace", CheckVerdict.WRONG, f"{error}.")
    except QueueUnavailable:
        return Check("namespace", CheckVerdict.NOTE, "cannot check who owns the queue while Redis does not answer.")
    finally:
        mine.close()
    return Check("namespace", CheckVerdict.OK, f"no other database uses the queue {settings.redis_namespace!r}")


def keys_of_members(settings: Settings) -> Mapping[str, Sequence[str]]:
    """Return the ids of the secret keys of each process that shares the queue; none where there is no Redis to say."""
    if not settings.distributed:
        return {}
    try:
        opened: Any = import_module("duetime.scheduler.queue.redis.members").NamespaceMembers
    except ModuleNotFoundError:
        return {}  # the check of Redis says so
    members = opened(settings.redis_url, namespace=settings.redis_namespace)
    try:
        found: Mapping[str, Sequence[str]] = members.alive()
    except QueueUnavailable:
        return {}  # as above
    finally:
        members.close()
    return found


def queue_check(settings: Settings, store: Store) -> Check:
    """Look whether the queue can be worked with, whether it was damaged, and whether it starts what is ready."""
    opened: Any = import_module("duetime.scheduler.queue.redis.queue").RedisQueue
    queue = opened(settings.redis_url, namespace=settings.redis_namespace)
    try:
        return examine_queue(queue, store)
    except QueueDamaged as error:
        return Check("queue", CheckVerdict.WRONG, f"{error}.", REFILL_ADVICE)
    except QueueLost:
        return Check("queue", CheckVerdict.NOTE, "the queue in Redis is empty.", REFILL_ADVICE)
    except QueueUnavailable:
        return Check("queue", CheckVerdict.NOTE, "cannot be checked while Redis does not answer.")
    finally:
        queue.close()


def examine_queue(queue: Any, store: Store) -> Check:
    """Look at a queue in Redis that is neither lost nor out of reach."""
    now = store.now()
    old = [run for run in store.claims.ready(limit=RUNS_PER_CHECK) if now - run.first_ready_at > MIN_STUCK]
    stuck = stuck_runs(queue, heads(Placement().entries(old, now)))
    if stuck:
        text = f"the queue is damaged: run {stuck[0].run_id} does not start, though nothing holds it up."
        return Check("queue", CheckVerdict.WRONG, text, REFILL_ADVICE)
    queue.explain("")
    damage = queue.last_damage()
    if damage is None:
        return Check("queue", CheckVerdict.OK, "starts every run that nothing holds up")
    at, why = damage
    text = f"{why}; it was refilled at {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC."
    return Check("queue", CheckVerdict.NOTE, text, "Give Redis to Duetime alone, or a database number of its own.")


def skew_check(store: Store) -> Check:
    """Compare this machine's clock with the database's, which decides what is due and which leases are over."""
    before = datetime.now(UTC)
    theirs = store.now()
    skew = theirs - before - (datetime.now(UTC) - before) / 2
    ahead = "behind" if skew > timedelta(0) else "ahead of"
    text = f"this machine is {abs(skew).total_seconds():.1f} s {ahead} the database"
    if abs(skew) > MAX_CLOCK_SKEW:
        advice = "Synchronize both clocks with NTP. The database's clock decides when a run is due."
        return Check("clock skew", CheckVerdict.WRONG, f"{text}.", advice)
    return Check("clock skew", CheckVerdict.OK, text)


def workers_check(store: Store) -> Check:
    """Look whether any worker was heard of lately, and takes runs."""
    now = store.now()
    alive = [worker for worker in store.workers.all() if is_alive(worker.seen_at, now)]
    if not alive:
        text = "no worker has reported lately, so no run starts and no channel is notified."
        return Check("workers", CheckVerdict.WRONG, text, "Start one: `duetime worker`.")
    processes = "1 process" if len(alive) == 1 else f"{len(alive)} processes"
    text = f"{processes} with {sum(worker.threads for worker in alive)} threads"
    states = Counter(state_of(worker, now) for worker in alive)
    idle = {state: states[state] for state in (DRAINED, DRAINING) if states[state]}
    if not states[RUNNING]:
        advice = "`duetime workers resume --all` lets them take runs again; or start another one: `duetime worker`."
        text = f"no run starts: {text}, and all are {' or '.join(idle)}."
        return Check("workers", CheckVerdict.WRONG, text, advice)
    but = "".join(f", {count} of them {state}" for state, count in idle.items())
    return Check("workers", CheckVerdict.OK, f"{text}{but}; `duetime workers` lists them")


def worker_actions(store: Store) -> frozenset[str] | None:
    """Return the actions that live workers have handlers for; None where no worker lives."""
    alive = [worker for worker in store.workers.all() if is_alive(worker.seen_at, store.now())]
    return frozenset(action for worker in alive for action in worker.actions) if alive else None


def _is_unclaimed(store: Store, run: ReadyRun) -> bool:
    seen_at = store.external_workers.last_seen(run.action, run.tenant)
    return Claimers(seen_at).are_silent(store.now())


def actions_check(
    known: Callable[[Store], frozenset[str] | None], store: Store, external: Collection[str] = ()
) -> Check:
    """Look whether a process that runs tasks has the action of each run that may start.

    A run of an `external` action starts if a worker elsewhere has claimed that lately.
    """
    actions = known(store)
    ready = store.claims.ready(limit=RUNS_PER_CHECK)
    if unclaimed := next((run for run in ready if run.action in external and _is_unclaimed(store, run)), None):
        text = f"no worker elsewhere claims the external action {unclaimed.action!r}, and runs of it wait."
        return Check("actions", CheckVerdict.WRONG, text, "Start one with a key of the scope `worker`.")
    if actions is None:
        return Check("actions", CheckVerdict.OK, "no process runs tasks, so none says which actions it knows")
    unknown = sorted({run.action for run in ready} - actions - {*external})
    if unknown:
        text = f"no worker knows the action {unknown[0]!r}, and runs of it wait."
        more = f" The same holds for {', '.join(map(repr, unknown[1:]))}." if unknown[1:] else ""
        return Check("actions", CheckVerdict.WRONG, text + more, "Start a worker with its handler: setting `handlers`.")
    return Check("actions", CheckVerdict.OK, f"{len(actions)} actions are known to workers")
