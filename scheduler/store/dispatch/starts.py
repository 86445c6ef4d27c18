"""Starts of runs: by one statement where that is faster, and what it left in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.run_records import Claim, Start, StartsUnknown, StartTerms
from duetime.scheduler.store.database.database import Database, Tried
from duetime.scheduler.store.database.postgres import EndUnknown
from duetime.scheduler.store.database.unreadable import DAMAGE_ERRORS, is_damage
from duetime.scheduler.store.forms import Forms
from duetime.scheduler.store.sql import commit_check
from sqlalchemy import Connection


class Starts:
    """Starts runs that are still ready. `fail` ends those of some runs that are damaged."""

    def __init__(
        self, database: Database, now: Callable[[], datetime], forms: Forms, fail: Callable[[Sequence[str]], None]
    ) -> None:
        self._database = database
        self._now = now
        self._forms = forms
        self._fail = fail

    def start(self, starts: Sequence[Start], terms: StartTerms) -> list[Claim]:
        """Start runs as `Claims.start` does."""
        tried = self._tried(starts, terms)
        claims = tried.result or []
        started = {claim.run.id for claim in claims}
        left = [wish for wish in starts if wish.run_id not in started]
        may_be_stored = tried.may_be_stored or bool(claims)  # earlier parts may have started runs
        if claims and not left:
            return claims
        try:
            return claims + self._started(left, terms, may_be_stored=may_be_stored)
        except StoreUnavailable as error:
            if may_be_stored or isinstance(error, EndUnknown):
                raise StartsUnknown(error, claims, left) from error
            raise

    def stored(self, starts: Sequence[Start], worker: str) -> list[Claim]:
        """Return the claims of those starts that are stored."""
        return self._database.write(lambda each: self._forms.stored_starts(each, starts, worker), durable=False)

    def _started(self, starts: Sequence[Start], terms: StartTerms, *, may_be_stored: bool) -> list[Claim]:
        """Start runs in one transaction; `may_be_stored`: an earlier try may have started them."""

        def work(connection: Connection) -> list[Claim]:
            return self._forms.start(connection, starts, terms, self._now(), may_be_stored=may_be_stored)

        stored = commit_check.started
        try:
            return self._database.write(work, durable=False, stored=stored, may_be_stored=may_be_stored)
        except DAMAGE_ERRORS as problem:  # what a server cannot compute with, fails the whole statement
            if not is_damage(problem):
                raise
        self._fail([wish.run_id for wish in starts])
        return self._database.write(work, durable=False, stored=stored, may_be_stored=True)

    def _tried(self, starts: Sequence[Start], terms: StartTerms) -> Tried[list[Claim]]:
        """Start runs in one round trip if each has a token, which identifies started runs after a lost reply."""
        if not starts or terms.epoch is not None or not all(wish.token for wish in starts):
            return Tried()
        try:
            return self._database.attempt(lambda each: self._forms.start_at_once(each, starts, terms, self._now()))
        except DAMAGE_ERRORS as problem:  # the tokens identify what was started
            if not is_damage(problem):
                raise
            self._fail([wish.run_id for wish in starts])
            return Tried(may_be_stored=True)
