"""The provider of API keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duetime.scheduler.errors import StoreUnavailable
from duetime.server.auth.key_format import KeyText, is_key
from duetime.server.auth.verifier import CallerToken

if TYPE_CHECKING:
    from duetime.scheduler.access.api_key import ApiKey
    from duetime.scheduler.store.access.api_keys import ApiKeys

_NO_DIGEST = "0" * 64
"""Compared for an id that does not exist, so that it costs what a wrong secret costs."""

ISSUER = "duetime-keys"
"""Stands for this provider where a token names its issuer."""

NOTE_RETRY_DELAY = timedelta(minutes=1)
"""After the database took no note, calls note nothing for so long: a locked one would keep each of them for 5 s."""

log = logging.getLogger(__name__)


class ApiKeyProvider:
    """Looks each key up at each call, so that a revoked key ends at once, in every process."""

    def __init__(self, keys: Callable[[], ApiKeys], now: Callable[[], datetime]) -> None:
        self._keys = keys
        self._now = now
        self._no_notes_until: datetime | None = None

    def knows(self, token: str) -> bool:
        return is_key(token)

    def verify(self, token: str) -> CallerToken | None:
        text = KeyText.parse(token)
        key = self._keys().find(text.id) if text is not None else None
        if text is None or not text.matches(key.digest if key is not None else _NO_DIGEST) or key is None:
            return None
        now = self._now()
        state = key.state(now)
        if state != "active":
            log.info("refused the API key %s, which is %s", key.id, state)
            return None
        self._note_use(key, now)
        return CallerToken.of(key.principal, ISSUER, ActiveKey(self, key.id))

    def is_active(self, key_id: str) -> bool:
        """Whether a key that was right before is neither revoked nor expired."""
        key = self._keys().find(key_id)
        return key is not None and key.state(self._now()) == "active"

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        if self._no_notes_until is not None and now < self._no_notes_until:
            return
        try:
            self._keys().note_use(key)
        except StoreUnavailable as error:  # a database that can be read answers reading calls
            self._no_notes_until = now + NOTE_RETRY_DELAY
            log.warning("cannot record the use of the API key %s: %s", key.id, error)


@dataclass(frozen=True, slots=True)
class ActiveKey:
    """Checks again whether a key is active."""

    provider: ApiKeyProvider
    key_id: str

    def __call__(self) -> bool:
        return self.provider.is_active(self.key_id)
