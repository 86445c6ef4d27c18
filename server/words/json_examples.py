"""Examples of a refused change that are JSON objects, as the callers of a front end send them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.tools.arguments.unknown_names import as_call


@contextmanager
def with_examples(write: Callable[[Mapping[str, Any]], str]) -> Iterator[None]:
    """Let errors show the objects of their examples as `write` writes them."""
    try:
        yield
    except InvalidArgument as wrong:
        raise _written(wrong, write) from None
    except InvalidArguments as several:
        raise InvalidArguments([_written(each, write) for each in several.problems]) from None


def _written(wrong: InvalidArgument, write: Callable[[Mapping[str, Any]], str]) -> InvalidArgument:
    example = write(json.loads(wrong.example)) if wrong.example.startswith("{") else wrong.example
    return InvalidArgument(wrong.argument, wrong.problem, accepted=wrong.accepted, example=example)


def as_json_word(value: Mapping[str, Any]) -> str:
    """Write an object as one word of a shell."""
    return shlex.quote(json.dumps(value, ensure_ascii=False))


def as_assignments(value: Mapping[str, Any]) -> str:
    """Write the numbers of a policy as `PART.TIER=VALUE`; as JSON where a part is no object."""
    if not all(isinstance(part, Mapping) for part in value.values()):
        return as_json_word(value)
    numbers = [(part, tier, number) for part, of in value.items() for tier, number in of.items()]
    return " ".join(f"{part}.{tier}={shlex.quote(_plain(number))}" for part, tier, number in numbers)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_member(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return how an object is written as the member of a request that holds it."""
    return lambda value: as_call({name: dict(value)})
