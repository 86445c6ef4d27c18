"""A change of what a chain has of its own: its title and its rule, as values before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from duetime.scheduler.chain.chain import Chain
from duetime.scheduler.task import Json

_POSITION: Final = frozenset({"due_at", "generation"})
"""Where a chain stands, which its generations change as well."""

_INSTANTS: Final = frozenset({"anchor", "until", "due_at"})


@dataclass(frozen=True, slots=True)
class ChainChange:
    """The fields of a chain that change, each with its value before and after."""

    chain_id: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @classmethod
    def of(cls, chain: Chain, fields: Mapping[str, Any]) -> Self | None:
        """Return the change to these values, None where the chain has them already."""
        after = {name: value for name, value in fields.items() if getattr(chain, name) != value}
        return cls(chain.id, {name: getattr(chain, name) for name in after}, after) if after else None

    @property
    def reversed(self) -> ChainChange:
        """Return the change that takes this one back."""
        return ChainChange(self.chain_id, self.after, self.before)

    def applied(self, chain: Chain) -> Chain:
        """Return the chain with the new values."""
        return replace(chain, **self.after)

    def audited(self) -> dict[str, Json]:
        """Return the new values under the names of the audit log."""
        shown = {name: value for name, value in self.after.items() if name not in _POSITION}
        return {name: None if value is None else str(value) for name, value in shown.items()}

    def to_json(self) -> dict[str, Json]:
        """Return the change as JSON, for `from_json`."""
        return {"chain": self.chain_id, "before": _to_json(self.before), "after": _to_json(self.after)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(stored["chain"], _from_json(stored["before"]), _from_json(stored["after"]))


def _to_json(values: Mapping[str, Any]) -> dict[str, Json]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value) if name in _INSTANTS and value else value for name, value in values.items()
    }
