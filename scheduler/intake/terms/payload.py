"""The payload of a call: blanks are left out of it, and the secrets that it names are checked.

Blanks are members that a strict client sent only because its schema names them. The schema of a tool names the members
of every built-in action, and a strict client fills in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache

from duetime.scheduler.access.secret import SecretUse
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Handler
from duetime.scheduler.handlers.reminder import ReminderPayload
from duetime.scheduler.handlers.webhook import WebhookPayload
from duetime.scheduler.intake.time_reader import USUAL_INTERVAL
from duetime.scheduler.task import Json
from pydantic import BaseModel
from pydantic.fields import FieldInfo

BUILT_IN: tuple[type[BaseModel], ...] = (ReminderPayload, WebhookPayload)
EMPTY_TEXTS: tuple[Json, ...] = (None, "")
EMPTY_VALUES: tuple[Json, ...] = (*EMPTY_TEXTS, {}, [])
_NAMED: Mapping[str, FieldInfo] = {name: field for model in BUILT_IN for name, field in model.model_fields.items()}

SecretHosts = Callable[[str], Mapping[str, tuple[str, ...]]]
"""The names of the secrets of a tenant, each with the only hosts that it may be sent to, none for any."""


def without_blanks(handler: Handler, given: Mapping[str, Json]) -> Mapping[str, Json]:
    """Leave out empty members of other built-in actions, and empty optional ones of a built-in action itself."""
    if _is_open(handler) or not hasattr(given, "items"):  # a program may give anything; the check names it
        return given
    own, optional = _members(handler.payload_model)
    return {
        name: value
        for name, value in given.items()
        if not (value in EMPTY_TEXTS if name in optional else name not in own and _is_blank(name, value))
    }


@lru_cache(maxsize=1_000)
def _members(model: type[BaseModel] | None) -> tuple[Collection[str], Collection[str]]:
    """Return the members of an action's payload, and those of a built-in one that may be left out."""
    own = model.model_fields if model else {}
    optional = [name for name, field in own.items() if not field.is_required()]
    return frozenset(own), frozenset(optional if model in BUILT_IN else ())


def _is_open(handler: Handler) -> bool:
    """Whether a handler takes members of any name, so that none of them can be another action's."""
    model = handler.payload_model
    return handler.takes_payload if model is None else model.model_config.get("extra") == "allow"


def _is_blank(name: str, value: Json) -> bool:
    if name not in _NAMED:
        return False
    return value in EMPTY_VALUES or value == _NAMED[name].get_default(call_default_factory=True, validated_data={})


def no_secrets(_tenant: str) -> Mapping[str, tuple[str, ...]]:
    return {}


def check_secrets(handler: Handler, payload: Mapping[str, Json], tenant: str, hosts: SecretHosts) -> None:
    """Raise InvalidArguments for each secret that a checked payload may not name. Only then secrets are looked up."""
    uses = list(handler.secrets(handler.parse(payload))) if handler.secrets else []
    known = hosts(tenant) if uses else {}
    problems = [problem for use in uses for problem in _problems(use, known)]
    if problems:
        raise InvalidArguments(problems)


def check_interval(handler: Handler, payload: Mapping[str, Json]) -> None:
    """Raise InvalidArgument where an agent asks for attempts more often than each minute, as programs may."""
    if handler.interval is None:
        return
    member, interval = handler.interval(handler.parse(payload))
    if interval < USUAL_INTERVAL:
        problem = f"{str(payload.get(member))[:40]!r} is shorter than a minute"
        raise InvalidArgument(f"payload.{member}", problem, accepted="at least 1 minute", example="1 min")


def _problems(use: SecretUse, known: Mapping[str, tuple[str, ...]]) -> Iterator[InvalidArgument]:
    if use.name not in known:
        there = ", ".join(known) or "none: an administrator sets one with `duetime secrets set`"
        yield InvalidArgument(use.place, f"this tenant has no secret {use.name[:64]!r}", accepted=there)
    elif known[use.name] and use.host.lower() not in known[use.name]:
        problem = f"the secret {use.name!r} may not be sent to {use.host[:100]}"
        yield InvalidArgument(use.place, problem, accepted=", ".join(known[use.name]))
