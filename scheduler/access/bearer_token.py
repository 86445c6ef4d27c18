"""The text of a token that lets its bearer in: `<prefix><id>_<secret>`.

The id is public: what a token stands for is found by it, and named by it in lists and logs. The secret is 256 random
bits, so one round of SHA-256 protects it at rest. Slow hashes are for passwords that people choose, and would cost each
call 0.1 s.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Self

from duetime.scheduler import ids

_SECRET_BYTES = 32
_ID_CHARS = 12
_REST = re.compile(rf"([{ids.ALPHABET}]{{{_ID_CHARS}}})_([0-9a-f]{{{2 * _SECRET_BYTES}}})", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class BearerToken:
    """The two parts of a token; its prefix names the kind. It is not shown, not even in a traceback."""

    PREFIX: ClassVar[str]

    id: str
    secret: str

    @classmethod
    def new(cls) -> Self:
        """Return a token that nobody else has."""
        return cls("".join(secrets.choice(ids.ALPHABET) for _ in range(_ID_CHARS)), secrets.token_hex(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the text of a token; None for any other text."""
        found = _REST.fullmatch(text, len(cls.PREFIX)) if text.startswith(cls.PREFIX) else None
        return cls(found[1], found[2]) if found else None

    @property
    def text(self) -> str:
        return f"{self.PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The digest of the secret, for the store."""
        return sha256(bytes.fromhex(self.secret)).hexdigest()

    def matches(self, digest: str) -> bool:
        """Whether the secret has this digest; takes the same time for every wrong secret."""
        return hmac.compare_digest(self.digest, digest)
