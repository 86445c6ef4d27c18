"""API keys as JSON, without their digests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.rules.time.times import utc, utc_or_none
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present


def keys_json(found: Iterable[ApiKey], now: datetime) -> dict[str, Json]:
    """Return a list of keys."""
    return {"schema": "duetime.keys/1", "keys": [_key(key, now) for key in found]}


def new_key_json(key: ApiKey, text: str, now: datetime, *, replaced: ApiKey | None = None) -> dict[str, Json]:
    """Return a new key with its text, and which one it replaces."""
    found: dict[str, Json] = {"schema": "duetime.key/1", **_key(key, now), "key": text}
    if replaced is not None:
        found |= {"replaces": replaced.id, "overlap_until": utc_or_none(replaced.expires_at)}
    return present(found)


def _key(key: ApiKey, now: datetime) -> dict[str, Json]:
    facts: dict[str, Json] = {
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "user": key.user,
        "scopes": list(key.scopes),
        "state": key.state(now),
        "created_at": utc(key.created_at),
        "expires_at": utc_or_none(key.expires_at),
        "revoked_at": utc_or_none(key.revoked_at),
        "last_used_at": utc_or_none(key.last_used_at),
    }
    return present(facts)
