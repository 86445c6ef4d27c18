"""The text of an API key: `dt_<id>_<secret>`.

The id is public: a key is found by it, and named by it in lists and logs. The secret is 256 random bits, so one round
of SHA-256 protects it at rest; slow hashes are for passwords that people choose, and would cost each call 0.1 s.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

from duetime.scheduler import ids

PREFIX = "dt_"
SECRET_BYTES = 32
MAX_KEY_CHARS = 100

_ID_CHARS = 12
_KEY = re.compile(rf"{PREFIX}([{ids.ALPHABET}]{{{_ID_CHARS}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class KeyText:
    """The two parts of a key. It is not shown, not even in a traceback."""

    id: str
    secret: str

    @classmethod
    def new(cls) -> KeyText:
        """Return a key that nobody else has."""
        key_id = "".join(secrets.choice(ids.ALPHABET) for _ in range(_ID_CHARS))
        return cls(key_id, secrets.token_hex(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> KeyText | None:
        """Read the text of a key; None for any other text."""
        found = _KEY.fullmatch(text) if len(text) <= MAX_KEY_CHARS else None
        return cls(found[1], found[2]) if found else None

    @property
    def text(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The digest of the secret, for the store."""
        return sha256(bytes.fromhex(self.secret)).hexdigest()

    def matches(self, digest: str) -> bool:
        """Whether the secret has this digest; takes the same time for every wrong secret."""
        return hmac.compare_digest(self.digest, digest)


def is_key(token: str) -> bool:
    """Whether a token claims to be an API key."""
    return token.startswith(PREFIX)
