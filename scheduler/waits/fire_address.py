"""Fire addresses: URLs with which anyone who knows one can start its task, and do nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from duetime.scheduler.access.bearer_token import BearerToken
from duetime.scheduler.errors import DuetimeError

ADDRESS_PATH: Final = "/v1/fire/"


class NoSuchAddress(DuetimeError):
    """No task has the address, or it has ended with its task: the answer is the same for both."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("There is no such address.")


class FireToken(BearerToken):
    """The public half of an address, by which it is found, and its secret half."""

    __slots__ = ()
    PREFIX: ClassVar[str] = "df_"


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
