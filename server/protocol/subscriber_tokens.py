"""The tokens of subscribers: a stream outlives the call that opened it, and must not outlive its token.

A token is checked again at most once a minute. Subscribers over MCP are checked before they are notified, so silent
ones cost nothing; streams of the REST API are checked though nothing happens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from duetime.scheduler.errors import DuetimeError
from duetime.tools.threads import cross

TOKEN_CHECK_INTERVAL_S = 60.0

Holds = Callable[[], bool]
"""Whether a token still holds, by a look at the database or the clock; equal for equal tokens."""

log = logging.getLogger(__name__)


def always() -> bool:
    """Hold for ever: where everyone is the local user, there is no token."""
    return True


def local_validity() -> Holds:
    """Return the check of the local user's calls."""
    return always


@dataclass(slots=True)
class _Token:
    """The subscriptions of one token, as what ends each of them."""

    checked_at: float
    ends: set[Callable[[], None]] = field(default_factory=set)


class SubscriberTokens:
    """The tokens of all subscriptions of a server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: dict[Holds, _Token] = {}
        self._sessions: dict[int, tuple[Callable[[], None], Callable[[], None]]] = {}

    def add(self, holds: Holds, end: Callable[[], None]) -> Callable[[], None]:
        """Remember a subscription, which `end` ends; return what forgets it."""
        token = self._tokens.setdefault(holds, _Token(self._clock()))
        token.ends.add(end)

        def forget() -> None:
            token.ends.discard(end)
            if not token.ends and self._tokens.get(holds) is token:
                del self._tokens[holds]

        return forget

    def add_session(self, session: int, holds: Holds, end: Callable[[], None]) -> None:
        """Remember a session that subscribes, which `end` ends; its token is that of its latest call."""
        self.forget_session(session)
        self._sessions[session] = (end, self.add(holds, end))

    def renew(self, session: int, validity: Callable[[], Holds]) -> None:
        """Note the token of a call, if its session subscribes: after a rotation it continues with the new key."""
        if session in self._sessions:
            self.add_session(session, validity(), self._sessions[session][0])

    def forget_session(self, session: int) -> None:
        if found := self._sessions.pop(session, None):
            found[1]()

    async def end_invalid(self) -> None:
        """End the subscriptions of each token that holds no longer, of those that were not checked lately."""
        now = self._clock()
        due = [holds for holds, token in self._tokens.items() if now - token.checked_at >= TOKEN_CHECK_INTERVAL_S]
        if not due:
            return
        try:
            ended = await cross(_ended, due)
        except DuetimeError as error:
            log.warning("cannot check the tokens of subscribers: %s", error)
            return
        for holds in due:
            if token := self._tokens.get(holds):
                token.checked_at = now
        self._end(ended)

    def _end(self, ended: Collection[Holds]) -> None:
        for holds in ended:
            token = self._tokens.get(holds)
            for end in list(token.ends) if token else []:
                end()


def _ended(tokens: Collection[Holds]) -> list[Holds]:
    return [holds for holds in tokens if not holds()]
