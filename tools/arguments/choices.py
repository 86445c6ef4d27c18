"""Words of which an argument takes one or several."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.task import Json
from duetime.tools.arguments.types import Texts, named, shown

_HYPHENS = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Choice:
    """A few words, of which one is given; `meant` are others by what they mean, which is what a refusal shows.

    A meaning that is not among the words is the call of another tool. Words that models know from another tool need not
    be `listed` again. Refusals show no words that are `hidden`.
    """

    words: tuple[str, ...]
    meant: Mapping[str, str] = field(default_factory=dict)
    listed: bool = True
    hidden: tuple[str, ...] = ()

    @property
    def accepted(self) -> str:
        return ", ".join(self._shown)

    @property
    def _shown(self) -> list[str]:
        return [str(word) for word in self.words if word not in self.hidden]

    def schema(self) -> dict[str, Any]:
        return {"type": "string", **({"enum": list(self.words)} if self.listed else {})}

    def read(self, given: Json) -> str:
        if not isinstance(given, str):
            raise ValueError(f"{named(given)} is not text")  # noqa: TRY004 - one family for all kinds
        plain = _plain(given)
        for word in self.words:
            if _plain(word) == plain:
                return word
        raise ValueError(f"{shown(given)} is not one of them")

    def nearest(self, given: Json) -> str | None:
        """Return the word that was most likely meant, None when nothing is near."""
        plain = _plain(given[:60]) if isinstance(given, str) else ""
        return self.meant.get(plain) or nearest_name(plain, self._shown)


@dataclass(frozen=True, slots=True)
class Choices:
    """A list of words, each one of a few; its JSON text, or one word alone. Others are `meant` as another argument."""

    words: tuple[str, ...]
    meant: Mapping[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> str:
        return f"a list of {', '.join(self.words)}"

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": Choice(self.words).schema()}

    def read(self, given: Json) -> list[str]:
        return [Choice(self.words).read(item) for item in Texts().read(given)]

    def elsewhere(self, given: Json) -> str | None:
        """Return the arguments that words are of, as they are passed; None where there are none."""
        words = given if isinstance(given, list) else [given]
        found = [self.meant[word] for word in words if isinstance(word, str) and word in self.meant]
        return ", ".join(dict.fromkeys(found)) or None

    def known(self, given: Json) -> list[Json]:
        """Return the words of a list that are right."""
        return [word for word in given if word in self.words] if isinstance(given, list) else []


def _plain(word: str) -> str:
    return _HYPHENS.sub("-", word.strip().lower())
