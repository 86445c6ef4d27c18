"""New API keys: whose they are, for how long they hold, and the successor of one that is rotated."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.principal import EVERY_SCOPE, Principal, Scope
from duetime.scheduler.remedies import CreateKey
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.server.auth.key_format import KeyText

NEVER_EXPIRES: Final = "never"
MAX_VALIDITY: Final = timedelta(days=3650)
MAX_OVERLAP: Final = timedelta(days=90)
USUAL_VALIDITY: Final = "365 days"
USUAL_OVERLAP: Final = "24 hours"


def new_key(owner: Principal, name: str, now: datetime, validity: timedelta | None) -> tuple[KeyText, ApiKey]:
    """Return a key of `owner` with his scopes, and the text of it, which is not kept. Raises InvalidArgument."""
    try:
        named = Principal(user=name).user
    except InvalidArgument as error:
        raise InvalidArgument("name", error.problem, accepted=error.accepted, example="laptop") from None
    if not owner.scopes:
        accepted = f"a list of {', '.join(Scope)}"
        problem = "a key without scopes opens nothing"
        raise InvalidArgument("scopes", problem, accepted=accepted, example="scopes=['tasks']")
    text, scopes = KeyText.new(), tuple(sorted(owner.scopes))
    ends = now + validity if validity is not None else None
    return text, ApiKey(text.id, owner.tenant, owner.user, scopes, named, text.digest, now, ends)


def successor(text: KeyText, now: datetime, old: ApiKey) -> ApiKey:
    """Return the key that replaces an old one, for the same principal and as long a time.

    It has those scopes that still are ones. Raises Refused for a key that has none of them.
    """
    scopes = tuple(scope for scope in old.scopes if scope in EVERY_SCOPE)
    if not scopes:
        has = f"it has {', '.join(old.scopes)}, and the scopes are {', '.join(Scope)}"
        raise Refused(f"the key {old.id} opens nothing: {has}.", remedy=CreateKey())
    ends = now + (old.expires_at - old.created_at) if old.expires_at else None
    return replace(
        old, id=text.id, digest=text.digest, scopes=scopes, created_at=now, expires_at=ends, last_used_at=None
    )


def validity_of(expires: str) -> timedelta | None:
    """Return how long a new key holds, None for ever. Raises InvalidArgument."""
    return None if expires == NEVER_EXPIRES else _length("expires", expires, MAX_VALIDITY, "90 days")


def overlap_of(overlap: str) -> timedelta:
    """Return for how long the old key still holds. Raises InvalidArgument."""
    return _length("overlap", overlap, MAX_OVERLAP, USUAL_OVERLAP)


def _length(argument: str, text: str, most: timedelta, example: str) -> timedelta:
    accepted = f"a duration of up to {most.days} days"
    try:
        found = parse_exact(text)
    except (Misread, Unknown):
        raise InvalidArgument(
            argument, f"{text[:60]!r} is not a duration", accepted=accepted, example=example
        ) from None
    if not timedelta() <= found <= most or (argument == "expires" and not found):
        raise InvalidArgument(argument, f"{text[:60]!r} is out of range", accepted=accepted, example=example)
    return found
