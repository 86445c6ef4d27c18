"""Sessions of the admin page: a cookie, sealed by the server, that says who has logged in and when.

The seal is an HMAC with a key that all processes of an installation share, so any of them recognises the session. A
session of an API key names the key, and each request looks the key up: a revoked key ends its sessions at once. A
session that was logged out is in the store until it would have ended, so no copy of its cookie works either.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

IDLE_LIFETIME_S = 3600
LIFETIME_S = 12 * 3600
SEEN_INTERVAL_S = 60
"""A session that is in use gets a new cookie no more often than this."""

_ID_BYTES = 16
_SEAL_BYTES = 32


@dataclass(frozen=True, slots=True)
class AdminSession:
    """A session: by an API key (`key_id`), or as a provider of identities has said (`tenant`, `user`, `scopes`).

    One without either is that of the local user, who need not log in. Times are seconds since 1970.
    """

    id: str
    begun_at: int
    seen_at: int
    key_id: str = ""
    tenant: str = ""
    user: str = ""
    scopes: tuple[str, ...] = ()

    @property
    def ends_at(self) -> datetime:
        """The time at which the session ends, however it is used."""
        return datetime.fromtimestamp(self.begun_at + LIFETIME_S, UTC)


class Seal:
    """Seals values for a purpose, so that nobody else can make them or use them for another purpose."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def close(self, purpose: str, value: Any) -> str:
        """Return the sealed text of a JSON value."""
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
        return base64.urlsafe_b64encode(self._mac(purpose, body) + body).decode().rstrip("=")

    def open(self, purpose: str, text: str) -> Any:
        """Return the value that was sealed for this purpose; None for any other text."""
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
        mac, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        return json.loads(body) if body and hmac.compare_digest(mac, self._mac(purpose, body)) else None

    def token(self, purpose: str, of: str) -> str:
        """Return a token that belongs to `of`, such as the CSRF token of a session."""
        return self._mac(purpose, of.encode()).hex()

    def _mac(self, purpose: str, body: bytes) -> bytes:
        return hmac.digest(self._key(), purpose.encode() + b"\0" + body, "sha256")


class Sessions:
    """Makes and reads session cookies; `now` gives seconds since 1970."""

    def __init__(self, seal: Seal, now: Callable[[], float]) -> None:
        self._seal = seal
        self._now = now

    def new(self, **whose: Any) -> AdminSession:
        """Begin a session."""
        now = int(self._now())
        return AdminSession(secrets.token_hex(_ID_BYTES), now, now, **whose)

    def write(self, session: AdminSession) -> str:
        return self._seal.close("session", asdict(session))

    def read(self, cookie: str) -> AdminSession | None:
        """Return the session of a cookie; None for a forged one, and for one that was idle or lasted too long."""
        found = self._seal.open("session", cookie)
        if found is None:
            return None
        session = AdminSession(**{**found, "scopes": tuple(found["scopes"])})
        now = self._now()
        over = now - session.seen_at > IDLE_LIFETIME_S or now - session.begun_at > LIFETIME_S
        return None if over else session

    def seen(self, session: AdminSession) -> AdminSession | None:
        """Return the session with its last use set to now; None if that was a moment ago."""
        now = int(self._now())
        return replace(session, seen_at=now) if now - session.seen_at >= SEEN_INTERVAL_S else None

    def csrf_token(self, session: AdminSession) -> str:
        """Return the CSRF token that forms of this session send back."""
        return self._seal.token("csrf", session.id)

    def has_csrf_token(self, session: AdminSession, token: str) -> bool:
        return hmac.compare_digest(self.csrf_token(session).encode(), token.encode())
