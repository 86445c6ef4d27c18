"""The digest, one message in place of those that quiet hours held, and the order of messages that have failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from duetime.scheduler.calls.origin import CHANNEL_PREFIX
from duetime.scheduler.delivery.quiet_hours import QuietPlan
from duetime.scheduler.delivery.webhook import WEBHOOK_PREFIX
from duetime.scheduler.rules.retry import MIN_CHANNEL_FAILURES
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.task import Delivery, InboxMessage, State

MAX_LINES: Final = 20
"""Outcomes that a digest reports in a line each, failures first; the rest is counted."""

_MAX_LINE_CHARS: Final = 200

SentMessage = tuple[Delivery, InboxMessage]


def is_read_by_people(channel: str) -> bool:
    """Whether a channel is one that people read; a program gets each outcome as it is."""
    return not channel.startswith((WEBHOOK_PREFIX, CHANNEL_PREFIX))


def message_of(messages: Sequence[InboxMessage]) -> InboxMessage:
    """Return the message that reports these outcomes, of which one stays as it is; it has failed if one of them has."""
    if len(messages) == 1:
        return messages[0]
    worst_first = sorted(messages, key=lambda message: (message.state not in FAILURES, message.created_at))
    lines = [f"{message.title}: {' '.join(message.text.split())}"[:_MAX_LINE_CHARS] for message in worst_first]
    more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    state = worst_first[0].state if worst_first[0].state in FAILURES else State.SUCCEEDED
    title = f"{len(messages)} outcomes of your quiet hours"
    return replace(worst_first[0], title=title, text="\n".join([*lines[:MAX_LINES], *more]), state=state)


def digests(due: Sequence[SentMessage], quiet: QuietPlan) -> list[list[SentMessage]]:
    """Return each delivery by itself, but those together that quiet hours held for one reader.

    A digest that was tried stays one message: its deliveries have the same `next_at` since, and are in one order.
    """
    groups: dict[Hashable, list[SentMessage]] = {}
    for pair in due:
        delivery, message = pair
        held = quiet.digest and message.held_until is not None and is_read_by_people(delivery.channel)
        groups.setdefault(_digest_of(pair) if held else delivery.id, []).append(pair)
    return [sorted(group, key=lambda pair: pair[0].id) for group in groups.values()]


def failures_mixed(groups: Sequence[list[SentMessage]], draw: Callable[[], float]) -> list[list[SentMessage]]:
    """Return the groups with those of each channel that are tried together in a random order, in their places.

    Otherwise messages that alone are refused may be the first ones each time, and hide that the channel takes others.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        if group[0][0].attempts >= MIN_CHANNEL_FAILURES:
            places[group[0][0].channel].append(place)
    mixed = list(groups)
    for of_channel in places.values():
        for place, taken in zip(of_channel, sorted(of_channel, key=lambda _: draw()), strict=True):
            mixed[place] = groups[taken]
    return mixed


def _digest_of(pair: SentMessage) -> Hashable:
    delivery, message = pair
    tried = None if delivery.next_at == message.held_until else (delivery.attempts, delivery.next_at)
    return delivery.tenant, message.user, delivery.channel, tried
