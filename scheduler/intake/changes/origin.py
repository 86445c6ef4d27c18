"""The origin of a task whose outcomes go back, from now on, to the conversation of a later call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from duetime.scheduler.calls.origin import CHANNEL_PREFIX, ORIGIN, read_origin
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.failures.follow_up import ON_FAILURE_NOTIFY
from duetime.scheduler.task import Task


def sends_back(request: Reschedule) -> bool:
    """Whether a change sends outcomes to the conversation that asks for it."""
    return ORIGIN in (request.deliver_to or ()) or (request.on_failure or {}).get(ON_FAILURE_NOTIFY) == ORIGIN


def with_origin(task: Task, request: Reschedule) -> Task:
    """Return the task with the origin of a change that sends outcomes back, if it names one.

    An origin that names a client alone, as a handshake does, leaves an origin of this client as it is. Raises
    InvalidArgument for an origin that is none, or that nothing goes back to.
    """
    if request.origin is None:
        return task
    origin, old = read_origin(request.origin), task.origin.get("client")
    if not sends_back(request):
        raise InvalidArgument(
            "origin",
            "nothing is sent back to it",
            accepted="with deliver_to=['origin'], or on_failure={'notify': 'origin'}",
            example="deliver_to=['origin'], origin={'client': 'my-app'}",
        )
    if list(origin) == ["client"] and origin["client"] == old:
        return task
    moved = {f"{CHANNEL_PREFIX}{old}": f"{CHANNEL_PREFIX}{origin['client']}"}
    channels = tuple(moved.get(name, name) for name in task.deliver_to)
    return replace(task, origin=origin, deliver_to=channels, on_failure=_moved(task.on_failure, moved))


def _moved(on_failure: Mapping[str, object], addresses: Mapping[str, str]) -> Mapping[str, object]:
    channel = on_failure.get(ON_FAILURE_NOTIFY)
    return (
        {**on_failure, ON_FAILURE_NOTIFY: addresses[channel]}
        if isinstance(channel, str) and channel in addresses
        else on_failure
    )
