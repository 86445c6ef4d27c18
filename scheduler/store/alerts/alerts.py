"""Alerts of an installation, and the last notice of each that every channel has sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.rules.alerts.alert import Alert, Notice, Phase
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.alerts import alert_notices, alerts
from sqlalchemy import Connection, and_, delete, or_, select

_PHASES: Final = frozenset(Phase)

NoticeKey = tuple[str, str, str]
"""Rule, key and channel."""


class Alerts:
    """The alerts that are pending, fire, or were resolved lately."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Alert]:
        """Return every alert that is kept and that can be read."""
        columns = (alerts.c.rule, alerts.c.key, alerts.c.phase, alerts.c.since, alerts.c.value)
        statement = select(*columns).order_by(alerts.c.rule, alerts.c.key)
        rows = self._database.look(lambda connection: unreadable.rows(connection, statement))
        known = [row for row in rows if row.phase in _PHASES]
        return [Alert(rule, key, Phase(phase), since, value) for rule, key, phase, since, value in known]

    def replace(self, rule: str, known: Mapping[str, Alert], found: Mapping[str, Alert]) -> None:
        """Replace the `known` alerts of a rule by the `found` ones, both by key."""
        gone = [key for key in known if key not in found]
        changed = [alert for key, alert in found.items() if known.get(key) != alert]
        if gone or changed:
            self._database.write(lambda connection: _replace(connection, rule, gone, changed))

    def forget(self, rule: str, keys: Sequence[str]) -> None:
        """Delete the alerts of a rule with these keys, and their notices."""
        self._database.write(lambda connection: _forget(connection, rule, keys))

    def notices(self) -> dict[NoticeKey, Notice]:
        """Return the last notice of each alert in each channel."""
        table = alert_notices.c
        columns = (table.rule, table.key, table.channel, table.told, table.told_at, table.tries, table.try_at)
        rows = self._database.look(lambda connection: unreadable.rows(connection, select(*columns)))
        return {
            (rule, key, channel): Notice(Phase(phase) if phase in _PHASES else None, sent_at, tries, try_at)
            for rule, key, channel, phase, sent_at, tries, try_at in rows
        }

    def claim(self, of: NoticeKey, now: datetime, lease: timedelta) -> bool:
        """Claim a notice for the time of the lease; False when another process has claimed it."""
        values = {**_named(of), "tries": 0, "try_at": now + lease}

        def work(connection: Connection) -> bool:
            statement = dialect_of(connection).insert(alert_notices)
            free = or_(alert_notices.c.try_at.is_(None), alert_notices.c.try_at <= now)
            index = ["rule", "key", "channel"]
            upsert = statement.on_conflict_do_update(index_elements=index, set_={"try_at": now + lease}, where=free)
            return connection.execute(upsert.returning(alert_notices.c.rule), values).first() is not None

        return self._database.write(work)

    def settle(self, of: NoticeKey, notice: Notice) -> None:
        """Store the result of a try to send a claimed notice."""
        named = and_(*(alert_notices.c[name] == value for name, value in _named(of).items()))
        values = {"told": notice.phase, "told_at": notice.sent_at, "tries": notice.tries, "try_at": notice.try_at}
        statement = alert_notices.update().where(named).values(values)
        self._database.write(lambda connection: connection.execute(statement))


def _named(of: NoticeKey) -> dict[str, str]:
    return dict(zip(("rule", "key", "channel"), of, strict=True))


def _forget(connection: Connection, rule: str, keys: Sequence[str]) -> None:
    for table in (alerts, alert_notices):
        connection.execute(delete(table).where(table.c.rule == rule, table.c.key.in_(keys)))


def _replace(connection: Connection, rule: str, gone: list[str], changed: list[Alert]) -> None:
    if gone:
        _forget(connection, rule, gone)
    for alert in changed:
        values = {"phase": alert.phase, "since": alert.since, "value": alert.value}
        statement = dialect_of(connection).insert(alerts)
        upsert = statement.on_conflict_do_update(index_elements=["rule", "key"], set_=values)
        connection.execute(upsert, {"rule": rule, "key": alert.key, **values})
