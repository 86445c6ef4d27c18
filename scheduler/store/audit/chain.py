"""The hash chains of an installation: sealing, heads and verification."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

from duetime.scheduler.audit.chain import AuditKeys, Head
from duetime.scheduler.audit.verdict import ChainVerdict, KeptHead
from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionRule, least_age_of_events
from duetime.scheduler.store.audit import seal
from duetime.scheduler.store.audit.seal import Sealer
from duetime.scheduler.store.audit.verify import ChainVerification
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.audit import audit_entries
from duetime.scheduler.store.schema.tables.events import events
from sqlalchemy import Connection, select, union


class AuditChain:
    """The chain of each tenant, over the events of its tasks and its audit log."""

    def __init__(self, database: Database, now: Callable[[], datetime], keys: AuditKeys) -> None:
        self._database = database
        self._keys = keys
        self._sealer = Sealer(database, now, keys)
        self._verification = threading.Lock()

    def seal(self, *, durable: bool = False) -> int:
        """Seal the next rows that are in no chain yet; return how many, 0 when there is nothing to do here."""
        return self._sealer.step(durable=durable)

    def heads(self, tenant: str | None = None) -> list[Head]:
        """Return the end of each chain, or that of one tenant, for keeping elsewhere."""
        found = self._database.look(seal.heads)
        return [head for head in found.values() if tenant in (None, head.tenant)]

    def verify(
        self,
        tenant: str | None = None,
        *,
        anchors: Sequence[KeptHead] = (),
        rules: Sequence[RetentionRule] | None = None,
        on_progress: Callable[[int], None] = lambda _entries: None,
    ) -> Iterator[ChainVerdict]:
        """Verify the chain of a tenant, or of each.

        `anchors` are heads kept elsewhere, `rules` those of retention and the former ones. `on_progress` gets counts.
        """
        every = (
            {*self._database.read(self._tenants), *(head.tenant for head in anchors)} if tenant is None else {tenant}
        )
        for each in sorted(every):
            own = [head for head in anchors if head.tenant == each]
            least = None if rules is None else partial(least_age_of_events, rules, each)
            yield ChainVerification(self._database, self._keys, each, own, on_progress).run(least)

    def verify_alone(
        self,
        tenant: str | None = None,
        *,
        anchors: Sequence[KeptHead] = (),
        rules: Sequence[RetentionRule] | None = None,
    ) -> list[ChainVerdict]:
        """Verify as `verify` does, for a caller of a server: each verification reads whole chains.

        Raises Refused while this process verifies for another caller.
        """
        if not self._verification.acquire(blocking=False):
            raise Refused("another verification goes on; try again when it is done.")
        try:
            return list(self.verify(tenant, anchors=anchors, rules=rules))
        finally:
            self._verification.release()

    def _tenants(self, connection: Connection) -> set[str]:
        """Return every tenant that has a chain, or rows for one."""
        rows = connection.execute(union(select(events.c.tenant), select(audit_entries.c.tenant))).scalars()
        return {*seal.heads(connection), *map(str, rows)}
