"""Repeated calls: the key by which a second call returns the first one's task, and the warning about it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.scheduler.calls.reschedule import Repeatable
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.validation import check_key, refuse_own_key
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.request import Request
from duetime.scheduler.rules.series.natural_key import check_template, field_values, template_of
from duetime.scheduler.translatable import NoteKind, Translatable

REPEAT_WINDOW = timedelta(seconds=60)
"""Time for which a repeated call without a key of its own returns the first task."""


_ENCODE = json.JSONEncoder(sort_keys=True).encode

REPEATED_CALL = Translatable.of(
    NoteKind.REPEATED_CALL,
    "this repeats an earlier call, so nothing was changed; the task is returned in its current state",
)

_LATER = re.compile(r"\b(later|earlier)\s*$", re.IGNORECASE)


def repeated_change(call: Repeatable) -> str:
    """Return the note on a repeated change; of one that could be meant once more, with how that is asked for."""
    raw = call.raw or {}
    onwards = raw.get("skip_next") or raw.get("action") == "skip_next" or raw.get("minutes")
    if call.idempotency_key is not None or not (onwards or _LATER.search(str(raw.get("when") or ""))):
        return REPEATED_CALL
    return Translatable.of(NoteKind.REPEATED_CALL, f"{REPEATED_CALL}; with an idempotency_key it is made once more")


def key_of(request: Request | Repeatable, by: Principal, now: datetime) -> IdempotencyKey | None:
    """Return the caller's key, or one derived from caller and raw arguments; None without either.

    Raises InvalidArgument for a template of which a field has no value.
    """
    content = request.content()
    natural = natural_key(request, by) if isinstance(request, Request) else None
    if natural is not None:
        key, has_window = natural
        return IdempotencyKey(key, content, expires_at=None, derived=has_window)
    if request.idempotency_key is not None:
        return IdempotencyKey(request.idempotency_key, content, expires_at=None, derived=False)
    if request.raw is None:
        return None
    digest = hashlib.sha256(_ENCODE([by.tenant, by.user, content]).encode()).hexdigest()
    return IdempotencyKey(f"derived:{digest}", content, expires_at=now + REPEAT_WINDOW, derived=True)


def natural_key(request: Request, by: Principal) -> tuple[str, bool] | None:
    """Return the key of a call by its template, and whether that has a window; None for a plain key.

    With a window it stands for the recurring work, without one for this work alone, as a plain key does.
    """
    template = template_of(request.idempotency_key)
    if template is None:
        return None
    values = field_values(template, by.tenant, by.user, request.action, request.labels)
    return template.of_call(values), template.has_window


def check_natural_key(request: Request, by: Principal) -> None:
    """Refuse a template that gives the occurrences of the task no keys of their own, or too long ones."""
    template = template_of(request.idempotency_key)
    if template is None:
        return
    if request.steps:
        raise InvalidArgument(
            "idempotency_key",
            "a chain takes no template: its steps would have the same key",
            accepted="a text without fields in braces",
            example="idempotency_key='weekly-report'",
        )
    values = field_values(template, by.tenant, by.user, request.action, request.labels)
    check_template(request.idempotency_key or "", template, values, recurring=request.repeat is not None)
    refuse_own_key(template.of_call(values))


def shared_keys(keys: Sequence[IdempotencyKey | None], together: str) -> list[InvalidArgument]:
    """Return a problem for each key that an earlier item of a call has too, with other content.

    `together` is the argument that has the items. A key of recurring work may be shared.
    """
    first, found = dict[str, int](), list[InvalidArgument]()
    for place, key in enumerate(keys):
        if key is None or key.derived:
            continue
        earlier = keys[first.setdefault(key.key, place)]
        if earlier is not None and earlier.fingerprint != key.fingerprint:
            found.append(_shared(key, earlier, f"{together}[{first[key.key]}]").at(f"{together}[{place}]"))
    return found


def _shared(key: IdempotencyKey, earlier: IdempotencyKey, where: str) -> InvalidArgument:
    there, here = earlier.fingerprint, key.fingerprint
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return InvalidArgument(
        "idempotency_key",
        f"{key.key[:60]!r} is that of {where} too, with other content ({', '.join(differing)})",
        accepted="a key of its own for each task",
        example=f"{key.key[:60]}-2",
    )


def is_wrong_key(request: Request, by: Principal) -> bool:
    """Whether the key of a request is refused, plain or as a template."""
    try:
        check_key(request)
        check_natural_key(request, by)
    except InvalidArgument:
        return True
    return False
