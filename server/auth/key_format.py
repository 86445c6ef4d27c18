"""The text of an API key: `dt_<id>_<secret>`."""

from __future__ import annotations

from typing import ClassVar

from duetime.scheduler.access.bearer_token import BearerToken


class KeyText(BearerToken):
    """The two parts of an API key."""

    __slots__ = ()
    PREFIX: ClassVar[str] = "dt_"


def is_key(token: str) -> bool:
    """Whether a token claims to be an API key."""
    return token.startswith(KeyText.PREFIX)
