"""The values of secrets that this process has read, masked wherever a text leaves a run.

Text that a tenant reads is masked by the values of its own attempt alone, known by a context variable, which coroutines
inherit. Log lines, which operators read, are masked by every value that the process has read lately: a thread of a
handler has no context.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from contextvars import ContextVar
from typing import Final

from duetime.scheduler.rules.redact import secret_forms, without_secrets, without_secrets_json
from duetime.scheduler.task import Json

MAX_VALUES_KNOWN: Final = 1_000
"""Values by which log lines are masked, the latest: each of them costs every line a search."""

_read_lately: OrderedDict[str, tuple[str, ...]] = OrderedDict()
_forms_read_lately: tuple[str, ...] = ()
_lock = threading.Lock()


class SecretMask:
    """The values that one attempt has read."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()

    def learn(self, value: str) -> None:
        self._forms = _longest_first({*self._forms, *secret_forms(value)})

    def text(self, text: str) -> str:
        """Return the text with `***` in place of each value."""
        return without_secrets(text, self._forms)

    def json(self, value: Json) -> Json:
        """Return the value with `***` in place of each value in its texts, names and numbers."""
        return without_secrets_json(value, self._forms) if self._forms else value


_CURRENT: ContextVar[SecretMask | None] = ContextVar("duetime_secrets", default=None)


class MaskedBlock:
    """A block that remembers the values that it reads; one inside another remembers them for both.

    Every attempt has two. A generator would take three times as long.
    """

    __slots__ = ("_token",)

    def __enter__(self) -> SecretMask:
        current = _CURRENT.get()
        mask = SecretMask() if current is None else current
        self._token = _CURRENT.set(mask) if current is None else None
        return mask

    def __exit__(self, *_raised: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)


def secrets_masked() -> MaskedBlock:
    """Return a block that remembers the values that it reads, for `masked`."""
    return MaskedBlock()


def learn_secret(value: str) -> str:
    """Remember a value that was read just now, and return it."""
    current = _CURRENT.get()
    if current is not None:
        current.learn(value)
    _learn_for_logs(value)
    return value


def masked(text: str) -> str:
    """Return a text of the current attempt with `***` in place of the secrets that it has read."""
    current = _CURRENT.get()
    return current.text(text) if current else text


def masked_json(value: Json) -> Json:
    """Return a JSON value of the current attempt without the secrets that it has read."""
    current = _CURRENT.get()
    return current.json(value) if current else value


def masked_log(text: str) -> str:
    """Return a text for a log with `***` in place of each secret that this process has read lately."""
    return without_secrets(text, _forms_read_lately)


def mask_record(record: logging.LogRecord) -> None:
    """Mask the message and the exception of a log record that holds a secret."""
    if not _forms_read_lately:
        return
    message = record.getMessage()
    if masked_log(message) != message:
        record.msg, record.args = masked_log(message), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    record.exc_text = masked_log(record.exc_text) if record.exc_text else None


def _learn_for_logs(value: str) -> None:
    global _forms_read_lately  # noqa: PLW0603 - logging is the process's own, and so is what may not be in it
    with _lock:
        if value in _read_lately:
            _read_lately.move_to_end(value)
            return
        _read_lately[value] = secret_forms(value)
        if len(_read_lately) > MAX_VALUES_KNOWN:
            _read_lately.popitem(last=False)
        _forms_read_lately = _longest_first({form for forms in _read_lately.values() for form in forms})


def _longest_first(forms: set[str]) -> tuple[str, ...]:
    """Order forms so that one inside another is not masked before it."""
    return tuple(sorted(forms, key=len, reverse=True))
