"""Plays scenarios, each on an installation of its own, and reports what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from duetime.scheduler.store import migrate_store
from valkey import Valkey

from tests import services
from tests.faults.invariants import classes, recovered_in
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.scenarios import EMBEDDED, Scenario
from tests.faults.world import Ground, World


@dataclass(frozen=True)
class Result:
    """The result of a scenario; `wrong` is empty when every invariant held."""

    scenario: Scenario
    evidence: str
    tasks: str
    recovered: float | None
    took: float
    wrong: str = ""


class Servers:
    """The PostgreSQL and the Valkey of the matrix: started when first needed, broken by its scenarios."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._postgres: services.OwnPostgres | None = None
        self._valkey: services.OwnValkey | None = None

    @property
    def postgres(self) -> services.OwnPostgres:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(services.own_postgres())
        return self._postgres

    @property
    def valkey(self) -> services.OwnValkey:
        if self._valkey is None:
            self._valkey = self._stack.enter_context(services.own_valkey())
        return self._valkey

    def close(self) -> None:
        self._stack.close()


@contextmanager
def world_of(scenario: Scenario, servers: Servers, folder: Path) -> Iterator[World]:
    """Make the installation of a scenario, with an empty database, and take it down."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if scenario.place == EMBEDDED:
            ground = Ground(f"sqlite:///{folder}/duetime.db")
        else:
            ground = stack.enter_context(shared_ground(servers, proxied=scenario.proxied))
        world = World(folder, ground, lease=scenario.lease)
        stack.callback(world.close)
        yield world


@contextmanager
def shared_ground(servers: Servers, *, proxied: bool) -> Iterator[Ground]:
    """Make an empty database and an empty Redis; with `proxied` the processes reach both through a proxy."""
    postgres, valkey = servers.postgres, servers.valkey
    with services.postgres_database(postgres.url) as database, ExitStack() as stack:
        migrate_store(database)
        with Valkey.from_url(valkey.url) as client:
            client.flushall()
        proxies = [Proxy(server.port) for server in (postgres, valkey)] if proxied else [None, None]
        for proxy in filter(None, proxies):
            stack.callback(proxy.close)
        yield Ground(database, valkey.url, postgres, valkey, *proxies)


def play(scenario: Scenario, servers: Servers, folder: Path) -> Result:
    """Play one scenario and judge it; never raises for what goes wrong in it."""
    began = time.monotonic()
    with world_of(scenario, servers, folder) as world:
        try:
            scenario.play(world)
            return _result(scenario, world.check(), began)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are played too
            faults = "; ".join(fault.evidence for fault in world.faults)
            return Result(scenario, faults, "", None, time.monotonic() - began, f"{type(error).__name__}: {error}")


def _result(scenario: Scenario, record: Record, began: float) -> Result:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(classes(record).items()))
    evidence = "; ".join(fault.evidence for fault in record.faults)
    return Result(scenario, evidence, counts, recovered_in(record), time.monotonic() - began)
