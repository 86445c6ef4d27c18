"""The systems that are compared: how each is configured, and what it does not do that the others may."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class System:
    """A scheduler and the class that drives it; `module` is empty for the one in Node."""

    name: str
    module: str
    peer: str
    configuration: str
    lacks: str = "-"
    ours: bool = False
    alone: bool = False
    """Whether one process both schedules and works, because the scheduler is a part of it."""
    limits: bool = False
    """Whether it limits calls by rate."""
    baseline: str = ""
    """The peer that an aim names."""


EMBEDDED = System(
    "Duetime embedded",
    "ours",
    "Duetime",
    "SQLite (synchronous=OFF), queue in memory, threads",
    ours=True,
    alone=True,
    limits=True,
)
SHARED = System(
    "Duetime shared", "ours", "SharedDuetime", "PostgreSQL and Redis, one server, one worker", ours=True, limits=True
)
DRAMATIQ = System(
    "Dramatiq",
    "plain_dramatiq",
    "PlainDramatiq",
    "RedisBroker, default middleware and prefetch, threads",
    "no database, no history, no dedupe, no order, no recurrence; delayed messages wait in a worker's memory",
    limits=True,
)
BULLMQ = System(
    "BullMQ",
    "",
    "",
    "Redis, one worker, 100 coroutines, finished jobs removed",
    "no database (what Redis loses is lost), no history as configured, dedupe only while a job exists, no costs",
    limits=True,
)
PEERS = (
    DRAMATIQ,
    System(
        "APScheduler 3",
        "apscheduler3",
        "APScheduler3",
        "SQLAlchemy job store on SQLite (WAL, synchronous=OFF), 16 threads",
        "a crash loses what a thread has taken; no retries, no history, one process, no limits by rate",
        alone=True,
    ),
    System(
        "procrastinate",
        "procrastinate_postgres",
        "Procrastinate",
        "PostgreSQL, NOTIFY, poll every 0.1 s, coroutines",
        "no deadlines, no limits by rate, no costs; dedupe only while a job waits (queueing lock)",
    ),
    System(
        "huey",
        "huey_redis",
        "Huey",
        "Redis, blocking reads, no results, threads, schedule read every 1 s (its least)",
        "a crash loses what a thread has taken; no history, no dedupe; limits by fixed windows only",
        limits=True,
    ),
    System(
        "taskiq",
        "taskiq_redis",
        "Taskiq",
        "Redis stream (acknowledged), list of schedules, coroutines, schedules read every 1 s (its least)",
        "no database, no history, no dedupe, no order, no limits by rate; schedules by the second",
    ),
    BULLMQ,
)
SYSTEMS = (EMBEDDED, SHARED, *PEERS)
