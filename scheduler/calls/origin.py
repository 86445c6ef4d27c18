"""Origins: the conversation that asked for a task, by the ids that its client gives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypedDict

from duetime.scheduler.errors import InvalidArgument

ORIGIN: Final = "origin"
"""The channel in `deliver_to` that stands for the address of a task's origin."""

CHANNEL_PREFIX: Final = f"{ORIGIN}:"
NO_ORIGIN: Final[Mapping[str, str]] = {}
MAX_CLIENT_CHARS: Final = 100
MAX_ORIGIN_ID_CHARS: Final = 200
_CLIENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/@+()-]{0,98}[A-Za-z0-9.)]|[A-Za-z0-9]")
_ID: Final = re.compile(r"[A-Za-z0-9][!-~]{0,199}")
_MARKUP: Final = re.compile(r"[\"'`<>\\]")
_ACCEPTED: Final = "an object of client, session and thread: a name, and ids without blanks"
_EXAMPLE: Final = '{"client": "claude-code", "thread": "th_7"}'


class OriginArguments(TypedDict, total=False):
    """The members of an origin: the name of the client, and its own ids of the session and the thread."""

    client: str
    session: str
    thread: str


ORIGIN_MEMBERS: Final = tuple(OriginArguments.__annotations__)


def is_client(name: object) -> bool:
    """Whether a text can be the name of a client."""
    return isinstance(name, str) and _CLIENT.fullmatch(name) is not None


def read_origin(given: object, argument: str = ORIGIN) -> Mapping[str, str]:
    """Return the members that are given. Raises InvalidArgument: ids are shown to models, so they are no sentences."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(argument, "it is not an object", accepted=_ACCEPTED, example=_EXAMPLE)
    unknown = next((name for name in given if name not in ORIGIN_MEMBERS), None)
    if unknown is not None:
        raise InvalidArgument(argument, f"it has no member {str(unknown)[:40]!r}", accepted=_ACCEPTED, example=_EXAMPLE)
    found = {name: given[name] for name in ORIGIN_MEMBERS if given.get(name) is not None}
    for name, value in found.items():
        _check_member(argument, name, value)
    if "client" not in found:
        raise InvalidArgument(f"{argument}.client", "it is missing", accepted=_ACCEPTED, example=_whole(argument))
    return found


def unread(given: object) -> Mapping[str, Any]:
    """Return an origin as it was given, nothing for what is no object: `read_origin` says what is wrong with it."""
    return given if isinstance(given, Mapping) else NO_ORIGIN


def channel_of(origin: Mapping[str, Any], configured: Collection[str]) -> str:
    """Return the channel that leads back to an origin. Raises InvalidArgument where none of those configured does."""
    clients = [name.removeprefix(CHANNEL_PREFIX) for name in configured if name.startswith(CHANNEL_PREFIX)]
    client = origin.get("client")
    name = f"{CHANNEL_PREFIX}{client}"
    if client is not None and name in configured:
        return name
    problem = f"the client {client!r} has no entry there" if client else "the task has no origin"
    accepted = f"the origin of one of {', '.join(clients)}" if clients else "another channel: no client has an entry"
    raise InvalidArgument(
        "deliver_to",
        f"'origin' leads to what the setting `origins` says for the client of the call, and {problem}",
        accepted=accepted,
        example="deliver_to=['inbox']",
    )


def _check_member(argument: str, name: str, value: object) -> None:
    plain = isinstance(value, str) and _ID.fullmatch(value) is not None and _MARKUP.search(value) is None
    if name == "client" and not is_client(value):
        accepted = f"1 to {MAX_CLIENT_CHARS} letters, digits, blanks and ._:/@+()-"
        raise InvalidArgument(
            f"{argument}.client", "it is not a valid client name", accepted=accepted, example=_whole(argument)
        )
    if name != "client" and not plain:
        accepted = (
            f"1 to {MAX_ORIGIN_ID_CHARS} visible ASCII characters without quotes, <, > and \\, a letter or digit first"
        )
        raise InvalidArgument(f"{argument}.{name}", "it is not a plain id", accepted=accepted, example=_whole(argument))


def _whole(argument: str) -> str:
    """Return the example of a problem with one member: the whole origin, by its name where it is an argument."""
    return f"{argument}={_EXAMPLE}" if argument.isidentifier() else _EXAMPLE
