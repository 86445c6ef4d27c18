"""Walks one database through every version of the schema, with rows of each; some upgrades are killed in the middle.

    python -m tests.migrations.walk URL

A process of its own, because each kill is of a fork.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.migrations import upgrade
from duetime.scheduler.store.store import connect, migrate_store
from sqlalchemy import Connection

from tests.migrations import rows_of_before

VERSIONS_PER_KILL = 8
"""Every so many versions an upgrade from there to the newest is killed in its middle."""


def main(url: str) -> None:
    for number in range(1, int(upgrade.HEAD_VERSION) + 1):
        version = f"{number:04d}"
        database = connect(url)
        database.migrate(partial(_step, version=version))
        database.close()
        if number % VERSIONS_PER_KILL == 0 and version != upgrade.HEAD_VERSION:
            _killed_halfway(url, f"{(number + int(upgrade.HEAD_VERSION) + 1) // 2:04d}")
            database = connect(url)
            assert database.read(upgrade.revision) == version
            database.close()


def _step(connection: Connection, version: str) -> None:
    running.run(connection, version)
    rows_of_before.add(connection, version)


def _killed_halfway(url: str, step: str) -> None:
    child = os.fork()
    if child == 0:
        migrate_store(url, lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == step else None)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the upgrade was over before {step}"


if __name__ == "__main__":
    main(sys.argv[1])
