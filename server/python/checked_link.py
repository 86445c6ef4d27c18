"""The link of a context that a test makes: its members are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Link
from duetime.scheduler.remedies import nearest_name

_MEMBERS: Final = {
    "save": "lambda state: True",
    "report": "lambda progress: True",
    "use": "lambda pool, units: None",
    "busy": "lambda pool, milliseconds: None",
    "cancelled": "lambda: True",
    "should_yield": "lambda: True",
    "now": "lambda: datetime(2026, 1, 1, 9).astimezone()",
    "secret": "lambda name, host: 'value'",  # nosec B105 # code of an example
    "inputs": "lambda: {'fetch': {'rows': 3}}",
    "approval": "lambda: {'answer': 'approve', 'by': 'ann'}",
    "event": "lambda: {'name': 'paid', 'id': 'e1', 'data': {}, 'at': '2026-01-01T09:00:00+00:00'}",
    "event_timed_out": "lambda: True",
}
"""Examples of the members of a link."""
_USUAL_MEMBER: Final = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLink(Link):
    """The connection of a context to its worker, as a test has it; a member that is not given does nothing.

    Raises InvalidArgument for a member that a link does not have, and for one that cannot be called.
    """

    def __new__(cls, **members: Any) -> Self:
        for name, value in members.items():
            if name not in _MEMBERS:
                meant = nearest_name(name, _MEMBERS) or _USUAL_MEMBER
                accepted = ", ".join(_MEMBERS)
                raise InvalidArgument(name, "a link has no such member", accepted=accepted, example=link_example(meant))
            if not callable(value):
                problem = f"{type(value).__name__} cannot be called"
                raise InvalidArgument(name, problem, accepted="a function", example=link_example(name))
        return object.__new__(cls)


def link_example(member: str) -> str:
    """Return a link with one member, as the argument of a context."""
    return f"link=testing.Link({member}={_MEMBERS[member]})"
