"""A task whose only run failed for good, as routes of administrators show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.scheduler.task import State

from tests.builders import message as a_message
from tests.builders import restarted, settlement
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import made


async def failed(
    site: Site,
    token: str | None = None,
    tenant: str = "local",
    costs: Mapping[str, int] | None = None,
    **arguments: Any,
) -> str:
    """Make a task whose only run failed for good, with a traceback, in the inbox and among the dead letters."""
    task = await made(site, token, when="now", title="Send it", **arguments)
    claim = restarted(site.app.store, site.app.store.tasks.get(tenant, task["id"]))
    ended = settlement(
        claim,
        State.FAILED,
        inbox=a_message(claim, text="no address", state=State.FAILED),
        error="no address",
        reason="no address",
        traceback="Traceback ...\nValueError: no address",
        dead_letter=True,
        used=dict.fromkeys(costs or {}, 1.0),
        costs=costs or {},
    )
    site.app.store.claims.settle([ended])
    found: str = task["id"]
    return found
