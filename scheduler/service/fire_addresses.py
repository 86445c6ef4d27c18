"""Fire addresses: whoever knows the address of a task may start it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.chain.chain import name_steps
from duetime.scheduler.errors import Refused
from duetime.scheduler.ids import is_chain_id, new_id
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.signals.signal_waits import EVENT_ID_PATTERN
from duetime.scheduler.service.signals import check_data
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.waits.fire_address import FireAddress, Fired, FireToken, NewAddress, NoSuchAddress
from duetime.scheduler.waits.signal import ReceivedSignal

_NO_DIGEST: Final = "0" * 64
_DIGEST_CHARS: Final = 32


class FireAddressService:
    """Makes and revokes the addresses of tasks, and starts the task of an address."""

    def __init__(
        self,
        store: Store,
        *,
        recall: Callable[[Sequence[str]], None],
        on_change: Callable[[Sequence[str]], None],
    ) -> None:
        self._store = store
        self._recall = recall
        self._on_change = on_change

    def make(self, task_id: str, *, renew: bool = False, by: Principal = LOCAL) -> NewAddress:
        """Give a task an address by which whoever knows it may start this task; return it, which is the only time.

        Raises Refused for a task that has one, unless it is to be `renew`ed: then the old one ends; and for a chain.
        """
        self._check_no_chain(task_id, by)
        token = FireToken.new()
        address = FireAddress(token.id, by.tenant, task_id, token.digest, self._store.now(), by.user)
        entry = AuditEntry.by(by, AuditKind.FIRE_ADDRESS_MADE, task_id)
        self._store.fire_addresses.add(address, entry, renew=renew)
        return NewAddress(address, token)

    def revoke(self, task_id: str, *, by: Principal = LOCAL) -> bool:
        """End the fire address of a task at once; return False for a task that has none. Raises Refused for a chain."""
        self._check_no_chain(task_id, by)
        entry = AuditEntry.by(by, AuditKind.FIRE_ADDRESS_REVOKED, task_id)
        return self._store.fire_addresses.revoke(by.tenant, task_id, entry)

    def _check_no_chain(self, task_id: str, by: Principal) -> None:
        if not is_chain_id(task_id):
            return
        steps = [step for step in self._store.chains.get(by.tenant, task_id).steps if not step.after]
        raise Refused(
            f"{task_id} is a chain, which has no address; its steps have: {name_steps(steps)}.",
            argument="task_id",
            remedy=remedies.Inspect(task_id),
        )

    def find(self, token: str) -> FireAddress:
        """Return the address whose token this is; raises NoSuchAddress for any other text, in about the same time."""
        read = FireToken.parse(token)
        found = self._store.fire_addresses.find(read.id) if read else None
        if read is None or not read.matches(found.digest if found else _NO_DIGEST) or found is None:
            raise NoSuchAddress
        return found

    def fire(
        self,
        address: FireAddress,
        data: Mapping[str, Json] | None = None,
        *,
        event_id: str | None = None,
        via: str | None = None,
    ) -> Fired:
        """Start the task of an address, or end the wait for an event that it is in; a repeated id does nothing.

        Its handler reads the data in `ctx.event`. Raises NoSuchAddress, and Refused where the task may not start.
        """
        check_data(data)
        known = new_id("e") if event_id is None else _as_event_id(event_id)
        fired = self._store.fire_addresses.fire(address, ReceivedSignal("", known, dict(data or {})), via=via)
        if not fired.repeated:
            self._recall(fired.left)
            self._on_change([fired.task_id])
        return fired


def _as_event_id(text: str) -> str:
    """Return the id of an event for a key of the world: any other than an id is shown by its digest."""
    if re.fullmatch(EVENT_ID_PATTERN, text):
        return text
    return f"h-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:_DIGEST_CHARS]}"
