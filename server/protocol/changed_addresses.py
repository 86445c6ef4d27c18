"""Addresses and lists that have subscribers: a task, its chain, the inbox, and the list of open tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.runtime.event_tail import EventLog
from duetime.scheduler.task import State
from duetime.server.protocol.subscription_limits import INBOX_ADDRESS, TASK_ADDRESS

SubscribedAddress = tuple[str, str]
"""A tenant, and what its subscribers call a resource: the inbox has one name for all tenants."""

_SETTLED = frozenset(
    {
        EventKind.SUCCEEDED,
        EventKind.FAILED,
        EventKind.EXPIRED,
        EventKind.ENDED,
        EventKind.CANCELLED,
        EventKind.CRASHED,
        EventKind.ASKED,
        EventKind.APPROVED,
        EventKind.REJECTED,
    }
)
_ASKING = frozenset({State.WAITING, State.SUSPENDED})
"""States of runs that may ask the user, whose inbox has the question."""


class SubscribedHistory(EventLog, Protocol):
    """The history that subscriptions read: the events, and whose tasks these are."""

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]: ...

    def chains(self, task_ids: Collection[str]) -> Mapping[str, str]: ...


def addresses_of(
    history: SubscribedHistory, events: Sequence[Event], touched: Sequence[str]
) -> list[SubscribedAddress]:
    """Return what changed, each once: a subscriber reads the newest state anyway. Of `touched` outcomes were read."""
    tenant_of = {event.task_id: event.tenant for event in events}
    read = [task_id for task_id in touched if task_id not in tenant_of]
    owners = history.tenants(read) if read else {}
    tenants = {**tenant_of, **owners}
    chains = history.chains(tenants) if tenants else {}
    found = [(tenant, f"{TASK_ADDRESS}{task_id}") for task_id, tenant in tenants.items()]
    found += [(tenants[task_id], f"{TASK_ADDRESS}{chain_id}") for task_id, chain_id in chains.items()]
    found += [(event.tenant, INBOX_ADDRESS) for event in events if _is_in_inbox(event)]
    return list(dict.fromkeys([*found, *((tenant, INBOX_ADDRESS) for tenant in owners.values())]))


def tenants_with_another_list(events: Sequence[Event]) -> list[str]:
    """Return the tenants whose list of open tasks has a task more or less, or another title."""
    return list(dict.fromkeys(event.tenant for event in events if _changes_the_list(event)))


def _changes_the_list(event: Event) -> bool:
    opened = event.kind is EventKind.CREATED or event.from_state in TERMINAL
    return opened or event.to_state in TERMINAL or "title" in (event.after or {})


def _is_in_inbox(event: Event) -> bool:
    return event.kind in _SETTLED or event.to_state in _ASKING
