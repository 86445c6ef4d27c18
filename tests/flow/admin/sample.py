"""A day of a small company, as its database has it: what ran, failed, waits and is to come."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from duetime.scheduler.rules.limits.pool import costs_of
from duetime.scheduler.rules.limits.pool_spec import read_pool, spec_of
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Json, RetryPolicy, State, Tier

from tests.builders import Clock, a_task, added, pool_act, settlement

CANARY = "<img src=x onerror=\"console.error('xss')\"> & \"quotes\" 'and' {{7*7}}"
TRACEBACK = """Traceback (most recent call last):
  File "handlers/invoices.py", line 41, in send
    response = client.post(url, json=payload.model_dump())
  File "httpx2/_client.py", line 1144, in post
    return self.request("POST", url, json=json)
httpx2.ReadTimeout: the server at billing.example.com did not answer in 30 s"""

WORK: tuple[tuple[str, str, Tier, tuple[str, ...], float], ...] = (
    ("Send invoice {n} to Nordwind", "webhook", Tier.HIGH, ("team=finance", "invoices"), 1.4),
    ("Summarise the support inbox", "prompt", Tier.NORMAL, ("team=support",), 14.2),
    ("Import orders of shop {n}", "webhook", Tier.NORMAL, ("team=shop", "import"), 42.0),
    ("Remind Maria about the lease", "reminder", Tier.NORMAL, (), 0.02),
    ("Rebuild the search index", "webhook", Tier.BACKGROUND, ("team=shop",), 312.0),
    ("Page the person on call: disk {n} is full", "webhook", Tier.CRITICAL, ("team=operations",), 0.6),
    ("Translate article {n}", "prompt", Tier.LOW, ("team=editors", "translation"), 27.5),
)
POOLS: dict[str, dict[str, Json]] = {
    "gpu": {"capacity": 2},
    "openai": {"kind": "rate", "capacity": 60, "per": "minute", "price": "0.015"},
    "calls": {"capacity": 50, "price": "0.001"},
}
FAILURES = (
    "the server at billing.example.com did not answer in 30 s",
    "429 Too Many Requests: the provider asks for a pause of 60 s",
    "the payload has no field `total`",
)


def fill(
    url: str, count: int, *, tenant: str = "local", until: datetime | None = None, seed: int = 7, overdue: bool = True
) -> None:
    """Write a day that ends at `until`: most of `count` tasks have run, some wait, some are to come.

    Without `overdue` none of those that were due is left to run.
    """
    end = until or datetime.now(UTC)
    chance, clock = random.Random(seed), Clock(end - timedelta(hours=26))
    store = open_store(url, clock=clock, synchronous="OFF")
    try:
        for name, spec in POOLS.items():
            store.pools.put(name, spec_of(read_pool(name, spec, zone="UTC")), pool_act("maria"))
        past = [timedelta(hours=26) * at / max(count, 1) for at in range(count * 3 // 4)]
        for number, offset in enumerate(past):
            clock.at = max(clock.at, end - timedelta(hours=26) + offset)
            _one(store, clock, chance, number, tenant, runs=not overdue or number % 17 != 16)
        clock.at = max(clock.at, end - timedelta(seconds=40))
        for number in range(len(past), count):
            at = end + timedelta(minutes=chance.uniform(20, 2000))
            _to_come(store, clock, _values(chance, number, tenant)[0], number, at)
    finally:
        store.close()


def filled(folder: Path, count: int, *tenants: str) -> bytes:
    """Return the content of a database file with a day of each tenant."""
    path = folder / "duetime.db"
    for tenant in tenants:
        fill(f"sqlite:///{path}", count, tenant=tenant, seed=len(tenant))
    return path.read_bytes()


def _values(chance: random.Random, number: int, tenant: str) -> tuple[dict[str, Any], float]:
    title, action, tier, labels, takes = WORK[number % len(WORK)]
    named = CANARY if number == 11 else title.format(n=1000 + number)
    job = {"url": "https://api.example.com/v2/jobs", "number": number, "api_key": "sk-9f8e7d6c5b4a"}
    payload = {"message": named} if action == "reminder" else job
    values = {
        "tenant": tenant, "owner": chance.choice(("maria", "ann", "build")), "title": named, "action": action,
        "priority": tier, "labels": labels, "payload": payload, "timezone": "Europe/Berlin", "when": "now",
        "retry": RetryPolicy(max_attempts=3), "deliver_to": ("inbox",),
    }  # fmt: skip
    return values, takes * chance.uniform(0.5, 2)


def _one(store: Store, clock: Clock, chance: random.Random, number: int, tenant: str, *, runs: bool) -> None:
    values, takes = _values(chance, number, tenant)
    late = chance.random() < 0.1
    deadline = {"deadline_after": timedelta(minutes=5)} if number % 3 == 0 else {}
    task, run = a_task(clock.at, created_at=clock.at, updated_at=clock.at, **values, **deadline)
    if deadline:
        run = replace(run, deadline=clock.at + timedelta(minutes=5))
    store.tasks.add(task, run, actor=task.owner)
    if not runs:
        return
    clock.forward(seconds=chance.uniform(0.1, 400 if late else 3))
    outcome = State.FAILED if chance.random() < 0.12 else State.SUCCEEDED
    tries = 3 if outcome is State.FAILED else 2 if chance.random() < 0.1 else 1
    for attempt in range(1, tries + 1):
        claim = _start(store, tenant, task.id, f"w_{chance.randint(1, 3)}")
        clock.forward(seconds=takes)
        _end(store, clock, claim, chance, outcome if attempt == tries else State.RETRYING)


def _start(store: Store, tenant: str, task_id: str, worker: str) -> Claim:
    store.claims.make_ready(limit=1_000)
    run = store.tasks.get(tenant, task_id).run
    [claim] = store.claims.start([Start(run.id)], worker=worker, epoch=None, lease=timedelta(seconds=30))
    return claim


def _end(store: Store, clock: Clock, claim: Claim, chance: random.Random, to: State) -> None:
    used: dict[str, float] = {"calls": 1.0} if claim.task.action == "webhook" else {}
    if claim.task.action == "prompt":
        used = {"openai": float(chance.randint(1, 5))}
    pools = {name: read_pool(name, spec) for name, spec in POOLS.items()}
    said: dict[str, Any] = {"used": used, "costs": costs_of(used, pools)}
    if to is State.SUCCEEDED:
        said |= {"summary": "200 OK", "result": {"status": 200, "body": {"id": chance.randint(1, 9999), "ok": True}}}
    else:
        error = chance.choice(FAILURES)
        said |= {"error": error, "reason": error, "failures": claim.run.attempt, "traceback": TRACEBACK}
    if to is State.RETRYING:
        said |= {"wake_at": clock.at}
    store.claims.settle([settlement(claim, to, dead_letter=to is State.FAILED, **said)])
    clock.forward(seconds=0.2)


def _to_come(store: Store, clock: Clock, values: dict[str, Any], number: int, at: datetime) -> None:
    if number % 2 == 0:
        values |= {"repeat": "FREQ=DAILY", "when": "every day at 9:00"}
    if number % 6 == 0:
        values |= {"needs": {"gpu": 4}}
    added(store, at, created_at=clock.at, updated_at=clock.at, **values)
