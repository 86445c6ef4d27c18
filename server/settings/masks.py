"""Values of settings as they may be shown: secrets are masked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

from duetime.scheduler.rules.redact import MASK
from pydantic import BaseModel, SecretStr

MAX_SETTING_CHARS = 60


@singledispatch
def masked(value: Any) -> str:
    """Return the value as one would write it, without what must stay secret (SecretStr, and passwords in URLs)."""
    shown = re.sub(r"(://[^:/@]*):.*@", rf"\1:{MASK}@", "" if value is None else str(value))
    return re.sub(r"([?&]\w*(?:password|secret|token)=)[^&]*", rf"\1{MASK}", shown, flags=re.IGNORECASE)


@masked.register
def _(value: SecretStr) -> str:
    return MASK if value else ""


@masked.register
def _(value: bool) -> str:
    return str(value).lower()


@masked.register(Mapping)
def _(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({masked(part)})" for name, part in value.items())


@masked.register
def _(value: BaseModel) -> str:
    given = (name for name in type(value).model_fields if name in value.model_fields_set)
    return ", ".join(name for name in given if getattr(value, name) is not None)


@masked.register(tuple)
@masked.register(list)
def _(value: Sequence[Any]) -> str:
    return ",".join(map(masked, value))


def is_secret(name: str) -> bool:
    """Whether the name of a setting says that its value must not be shown."""
    return any(word in name.lower() for word in ("secret", "token", "password", "channel", "key"))


def brief(name: str, value: Any) -> str:
    """Return a value for a sentence: short, and without what must stay secret."""
    return MASK if is_secret(name) or isinstance(value, Mapping) else repr(masked(value))[:MAX_SETTING_CHARS]
