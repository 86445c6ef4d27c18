"""Fire addresses: a task may have one, and whoever knows it may start this task, and nothing else."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final

from duetime.scheduler import ids
from duetime.scheduler.errors import DuetimeError

PREFIX: Final = "df_"
SECRET_BYTES: Final = 32
ADDRESS_PATH: Final = "/v1/fire/"
_ID_CHARS: Final = 12
_TOKEN: Final = re.compile(rf"{PREFIX}([{ids.ALPHABET}]{{{_ID_CHARS}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})", re.ASCII)


class NoSuchAddress(DuetimeError):
    """No task has the address, or it has ended with its task: the answer is the same for both."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("There is no such address.")


@dataclass(frozen=True, slots=True, repr=False)
class FireToken:
    """The two parts of an address, a public id and a secret. It is not shown, not even in a traceback."""

    id: str
    secret: str

    @classmethod
    def new(cls) -> FireToken:
        """Return a token that nobody else has."""
        return cls("".join(secrets.choice(ids.ALPHABET) for _ in range(_ID_CHARS)), secrets.token_hex(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> FireToken | None:
        """Read the text of a token; None for any other text."""
        found = _TOKEN.fullmatch(text)
        return cls(found[1], found[2]) if found else None

    @property
    def text(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The digest of the secret, for the store: it is random, so one round of SHA-256 protects it."""
        return sha256(bytes.fromhex(self.secret)).hexdigest()

    def matches(self, digest: str) -> bool:
        """Whether the secret has this digest; takes the same time for every wrong secret."""
        return hmac.compare_digest(self.digest, digest)


@dataclass(frozen=True, slots=True)
class FireAddress:
    """The address of a task as it is stored, without its secret."""

    id: str
    tenant: str
    task_id: str
    digest: str = field(repr=False)
    made_at: datetime
    made_by: str


@dataclass(frozen=True, slots=True)
class NewAddress:
    """A new address, and its `token`, which nobody can read again."""

    address: FireAddress
    token: FireToken

    @property
    def path(self) -> str:
        return f"{ADDRESS_PATH}{self.token.text}"


@dataclass(frozen=True, slots=True)
class Fired:
    """The answer to a call of an address; `repeated`: its event was known by its id, and nothing was done.

    `left` are runs that leave the queue for it.
    """

    task_id: str
    event_id: str
    repeated: bool = False
    left: tuple[str, ...] = ()
