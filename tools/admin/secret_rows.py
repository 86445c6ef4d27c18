"""Secrets as JSON, without their values, encrypted or not: for the command line and REST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from duetime.scheduler.access.secret import Secret
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present

_HOST = re.compile(r"[a-z0-9_.:\[\]-]{1,253}")


def secrets_json(found: Iterable[Secret]) -> dict[str, Json]:
    """Return a list of secrets."""
    return {"schema": "duetime.secrets/1", "secrets": [*map(secret_json, found)]}


def secret_json(secret: Secret) -> dict[str, Json]:
    """Return a secret without its value."""
    known: dict[str, Json] = {
        "name": secret.name,
        "tenant": secret.tenant,
        "hosts": list(secret.hosts),
        "set_at": times.utc(secret.set_at),
        "set_by": secret.set_by,
        "last_used_at": times.utc(secret.last_used_at) if secret.last_used_at else None,
    }
    return present(known)


def read_hosts(given: Sequence[str], argument: str = "host", example: str = "api.stripe.com") -> tuple[str, ...]:
    """Return the hosts to which alone a secret may be sent. Raises InvalidArgument for what is none."""
    return tuple(dict.fromkeys(_host(each, argument, example) for each in given))


def _host(text: str, argument: str, example: str) -> str:
    host = text.strip().lower()
    if not _HOST.fullmatch(host):
        problem = f"{text[:60]!r} is not a host name"
        raise InvalidArgument(argument, problem, accepted="a host name", example=example)
    return host
