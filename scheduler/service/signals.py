"""Receives events, for which tasks wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.ids import new_id
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.sanitize import check_json, kind_of
from duetime.scheduler.rules.signals.signal_waits import check_event_id, check_name
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.waits.signal import ReceivedSignal, SentSignal

MAX_DATA_BYTES: Final = 32_768


class SignalService:
    """Receives events: each is stored, and the tasks that wait for it continue in the same transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(
        self,
        name: str,
        data: Mapping[str, Json] | None = None,
        *,
        event_id: str | None = None,
        by: Principal = LOCAL,
    ) -> SentSignal:
        """Send an event to the tasks of the caller's tenant; return how many continue by it.

        A second event with the same `event_id` is the same one. Nothing is done, and the first answer is returned, for
        a week or 10,000 further events. Without an id each call is an event of its own.
        """
        check_name("name", name)
        check_data(data)
        known = new_id("e") if event_id is None else check_event_id("event_id", event_id)
        return self._store.signals.send(by.tenant, ReceivedSignal(name, known, dict(data or {})), actor=by.user)


def check_data(data: Mapping[str, Json] | None) -> None:
    """Raise InvalidArgument for data of an event that are no object, or too large."""
    if data is not None and not isinstance(data, Mapping):
        raise InvalidArgument("data", f"expected an object, got {kind_of(data)}", example="data={'order': {'id': 7}}")
    check_json(
        "data", dict(data or {}), max_bytes=MAX_DATA_BYTES, smaller="data={'url': 'https://example.com/order/7'}"
    )
