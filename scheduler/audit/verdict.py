"""The result of a verification of an audit chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Break:
    """The first entry of a chain that is not as it was sealed: its number in the chain, and what is wrong."""

    entry: int
    wrong: str


@dataclass(frozen=True, slots=True)
class Removal:
    """The events of a chain that retention deleted on a day, in UTC, as its entries of the kind `rows_removed` say.

    `too_young` of them were younger than the rules let go, those of today and the former ones that the settings name.
    """

    day: date
    events: int
    too_young: int = 0


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The state of one tenant's chain up to its head, `hash`.

    `checked` entries were compared with their rows. `removals` says how many events retention deleted and when. Some
    may be too young: a rule was shorter then, or somebody else deleted them and recorded a removal. `pending` rows are
    not sealed yet. `unkeyed` entries were sealed before there was a key.
    """

    tenant: str
    entries: int
    hash: str
    checked: int = 0
    removals: tuple[Removal, ...] = ()
    pending: int = 0
    unkeyed: int = 0
    broken: Break | None = None

    @property
    def removed(self) -> int:
        """The number of events that retention deleted."""
        return sum(each.events for each in self.removals)

    @property
    def too_young(self) -> int:
        """The number of these that were younger than the rules let go."""
        return sum(each.too_young for each in self.removals)

    @property
    def holds(self) -> bool:
        """Whether the chain is as it was sealed, and no event is gone that the rules keep."""
        return self.broken is None and not self.too_young


@dataclass(frozen=True, slots=True)
class KeptHead:
    """A head that was kept elsewhere: the hash of a tenant's chain when it had so many entries."""

    tenant: str
    entries: int
    hash: str
