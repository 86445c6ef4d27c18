"""The provider of API keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from duetime.scheduler.errors import StoreUnavailable
from duetime.server.auth.key_format import KeyText, is_key
from duetime.server.auth.verifier import CallerToken

if TYPE_CHECKING:
    from duetime.scheduler.api_key import ApiKey
    from duetime.scheduler.store.access.api_keys import ApiKeys

ISSUER = "duetime-keys"
"""Stands for this provider where a token names its issuer."""

log = logging.getLogger(__name__)


class ApiKeyProvider:
    """Looks each key up at each call, so that a revoked key ends at once, in every process."""

    def __init__(self, keys: Callable[[], ApiKeys], now: Callable[[], datetime]) -> None:
        self._keys = keys
        self._now = now

    def knows(self, token: str) -> bool:
        return is_key(token)

    def verify(self, token: str) -> CallerToken | None:
        text = KeyText.parse(token)
        key = self._keys().find(text.id) if text is not None else None
        if text is None or key is None or not text.matches(key.digest):
            return None
        state = key.state(self._now())
        if state != "active":
            log.info("refused the API key %s, which is %s", key.id, state)
            return None
        self._note_use(key)
        return CallerToken.of(key.principal, ISSUER)

    def _note_use(self, key: ApiKey) -> None:
        try:
            self._keys().note_use(key)
        except StoreUnavailable as error:  # a database that can be read answers reading calls
            log.warning("cannot note the use of the API key %s: %s", key.id, error)
