"""The origin of a call: the conversation that its client names in `_meta`, or the client alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from duetime.scheduler.calls.origin import ORIGIN, is_client, read_origin
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.intake.changes.terms import delivers_to_origin
from duetime.scheduler.request import Request
from duetime.scheduler.rules.failures.follow_up import ON_FAILURE_NOTIFY

ORIGIN_META: Final = "duetime/origin"
"""The key in the `_meta` of a call: an object of client, session and thread."""


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The origin that a call names, unread, and the name of the client as its handshake gives it."""

    given: Any = None
    client: str | None = None
    request: Any = field(default=None, compare=False, repr=False)
    """The HTTP request of the call, None where it did not come so."""

    @classmethod
    def of_context(cls, context: Any) -> Self:
        """Read the request that is being served; a name that can be no name of a client is none."""
        with suppress(ValueError, AttributeError):  # there is no request
            request = context.request_context
            params = request.session.client_params
            name = params.client_info.name if params is not None else None
            named = name if is_client(name) else None
            return cls((request.meta or {}).get(ORIGIN_META), named, getattr(request, "request", None))
        return cls()

    @classmethod
    def of_metadata(cls, meta: Mapping[str, Any], client_info: Any) -> Self:
        """Read the `_meta` of a request, and what it says of its client."""
        name = client_info.get("name") if isinstance(client_info, Mapping) else None
        return cls(meta.get(ORIGIN_META), name if is_client(name) else None)

    async def has_left(self) -> bool:
        """Whether the caller has closed the connection over which the answer would go."""
        return self.request is not None and await self.request.is_disconnected()

    def of_task(self, request: Request) -> Mapping[str, str] | None:
        """Return the origin of a task; one to which outcomes are to go back may be a client alone.

        Raises InvalidArgument for an origin that is none.
        """
        return self._read() if self.given is not None or ORIGIN in _channels_named(request) else None

    def of_change(self, change: Reschedule) -> Mapping[str, str] | None:
        """Return the origin of a change that sends outcomes back, as `of_task` does; None for any other change."""
        return self._read() if delivers_to_origin(change) else None

    def _read(self) -> Mapping[str, str] | None:
        known = {"client": self.client} if self.client is not None else {}
        if self.given is None:
            return known or None
        given = {**known, **self.given} if isinstance(self.given, Mapping) else self.given
        return read_origin(given, f"_meta.{ORIGIN_META}")


UNKNOWN_ORIGIN: Final = CallOrigin()


def _channels_named(request: Request) -> Iterator[Any]:
    steps: Sequence[Any] = request.steps or ()  # nobody has read them yet
    of_steps = ((step.get("deliver_to"), step.get("on_failure")) for step in steps if isinstance(step, Mapping))
    for channels, on_failure in ((request.deliver_to, request.on_failure), *of_steps):
        yield from [channels] if isinstance(channels, str) else channels if isinstance(channels, list | tuple) else ()
        yield on_failure.get(ON_FAILURE_NOTIFY) if isinstance(on_failure, Mapping) else None
