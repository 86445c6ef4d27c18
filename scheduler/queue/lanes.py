"""Lanes: runs of an action that some worker has no handler for wait apart from the others. Twin: lua/order/lanes.lua.

A worker takes runs of the actions it has only. While all workers have all actions, every run is in the main lane,
and nothing is to be told apart. A worker that meets a run of an unknown action moves it to a lane of that action. From
then on no worker without the handler looks at these runs, and all that know it look at both lanes.
"""

from __future__ import annotations

KnownActions = frozenset[str] | None
"""The actions that a worker has handlers for; None for all."""

MAIN_LANE = ""

LANE_CHECK_INTERVAL_MS = 600_000.0
"""Milliseconds after which a take removes a lane if it is empty then; a worker that meets such a run recreates it."""

MAX_LANES_CHECKED = 16
"""Lanes that one take examines for whether they can go."""


def action_of_tenant(action: str, tenant: str) -> str:
    """Return an action as the queue has it where each tenant's runs wait for workers of their own.

    No action has the sign in its name. So a worker that takes runs of one tenant never sees those of another.
    """
    return f"{action}@{tenant}"


def knows(actions: KnownActions, action: str) -> bool:
    """Whether a worker with handlers for `actions` may take runs of `action`; any worker may without an action."""
    return actions is None or not action or action in actions
