"""The monitor of alerts: evaluates the rules in turns with other processes, and notifies the channels.

Of all processes of an installation one evaluates at a time; any may. Each looks after the clock of its own host. The
alert of a host that is gone is over.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.delivery.channel import Channel, ChannelError
from duetime.scheduler.rules.alerts.alert import (
    Alert,
    AlertRule,
    Notice,
    Observation,
    Phase,
    advance,
    is_due,
    retry_delay,
)
from duetime.scheduler.rules.alerts.alert_rules import ALERT_RULES
from duetime.scheduler.runtime.loop import StepParts
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, State

EVALUATION_INTERVAL: Final = timedelta(seconds=20)
NOTICE_LEASE: Final = timedelta(minutes=2)
"""The time that a process has to notify a channel; no channel takes as long."""

HOST_GONE_AFTER: Final = timedelta(minutes=10)
"""A host on which no process has looked for so long is gone, and its clock with it."""

ALERTS_TURN: Final = "alerts"
RUNBOOK: Final = "docs/runbook.md"

log = logging.getLogger(__name__)


class AlertMonitor:
    """Evaluates the rules over what `observe` sees, and notifies `channels`; again every `repeat` while one fires."""

    def __init__(
        self,
        store: Callable[[], Store],
        observe: Callable[[], Observation],
        channels: Callable[[], Sequence[Channel]],
        *,
        repeat: timedelta,
        host: str | None = None,
    ) -> None:
        self._store = store
        self._observe = observe
        self._channels = channels
        self._repeat = repeat
        self._rules = {rule.name: rule for rule in ALERT_RULES}
        self._host = host or socket.gethostname()
        self._parts = StepParts("alerts")

    def step(self) -> float:
        """Evaluate and tell, if it is this process's turn; return the seconds until the next look."""
        store = self._store()
        if store.turns.take(ALERTS_TURN, EVALUATION_INTERVAL / 2):
            self._evaluate(store, [rule for rule in self._rules.values() if not rule.per_host])
        if store.turns.take(f"{ALERTS_TURN} of {self._host}", EVALUATION_INTERVAL / 2):
            self._evaluate(store, [rule for rule in self._rules.values() if rule.per_host])
        self._notify(store)
        return EVALUATION_INTERVAL.total_seconds()

    def _evaluate(self, store: Store, rules: Sequence[AlertRule]) -> None:
        seen, now = self._observe(), store.now()
        store.turns.plan(_absence(self._host), now + HOST_GONE_AFTER)
        kept = store.alerts.all()
        for rule in rules:
            known = {
                alert.key: alert
                for alert in kept
                if alert.rule == rule.name and (not rule.per_host or self._evaluates(store, alert.key))
            }
            with self._parts.isolated(rule.name):
                found = advance(rule, known, seen, now)
                store.alerts.replace(rule.name, known, found)
                _log_changes(rule, known, found)

    def _evaluates(self, store: Store, host: str) -> bool:
        """Whether this process evaluates the alert of a host: its own, or one on which nobody has looked for long."""
        end = store.now() + HOST_GONE_AFTER
        return host == self._host or store.turns.take(_absence(host), HOST_GONE_AFTER, first_at=end)

    def _notify(self, store: Store) -> None:
        """Send every channel the alerts that it has not had; one that fails keeps no other from its own."""
        now, notices = store.now(), store.alerts.notices()
        for alert in store.alerts.all():
            for channel in self._channels() if alert.rule in self._rules else ():
                of = alert.rule, alert.key, channel.name
                notice = notices.get(of, Notice())
                if is_due(alert, notice, now, self._repeat) and store.alerts.claim(of, now, NOTICE_LEASE):
                    store.alerts.settle(of, self._notified(channel, alert, notice, now))

    def _notified(self, channel: Channel, alert: Alert, notice: Notice, now: datetime) -> Notice:
        message = message_of(alert, self._rules[alert.rule], now)
        try:
            channel.send(message, key=message.id)
        except Exception as error:  # noqa: BLE001 - a library's own exceptions fail this notice, never the loop
            tries = notice.tries + 1
            wait = max(
                retry_delay(tries), (error.retry_after if isinstance(error, ChannelError) else None) or timedelta()
            )
            log.warning(
                "cannot notify channel %s of alert %s, retrying in %s: %s", channel.name, alert.rule, wait, error
            )
            return Notice(notice.phase, notice.sent_at, tries, now + wait)
        return Notice(alert.phase, now)


def _absence(host: str) -> str:
    """Return the name of the turn of other processes, which a process of the host puts off with each look."""
    return f"{ALERTS_TURN} without {host}"


def message_of(alert: Alert, rule: AlertRule, now: datetime) -> InboxMessage:
    """Return the message to a channel; its id is the same for each try of one notice."""
    resolved = alert.phase is Phase.RESOLVED
    name = f"{alert.rule}{f' ({alert.key})' if alert.key else ''}"
    text = f"{rule.sentence(alert)}{'; it is over' if resolved else ''}"
    return InboxMessage(
        id=f"alert-{alert.rule}-{alert.key}-{alert.phase}-{alert.since:%Y%m%dT%H%M%S}",
        tenant="",
        user="",
        task_id="",
        run_id="",
        title=f"{'Resolved' if resolved else 'Alert'}: {name}",
        text=f"{text} (since {alert.since:%Y-%m-%d %H:%M} UTC). What to do: {RUNBOOK}#{alert.rule.lower()}",
        state=State.SUCCEEDED if resolved else State.FAILED,
        created_at=now,
    )


def _log_changes(rule: AlertRule, known: dict[str, Alert], found: dict[str, Alert]) -> None:
    for key, alert in found.items():
        before = known.get(key)
        if before is None or before.phase is not alert.phase:
            level = logging.WARNING if alert.phase is Phase.FIRING else logging.INFO
            log.log(level, "alert %s is %s: %s", alert.rule, alert.phase, rule.sentence(alert))
