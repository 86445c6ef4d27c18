"""The action `watch`: a run that waits with a checkpoint between two looks, and ends when there is something to tell.

It ends as met or changed (succeeded), as failed, or as expired: what comes after it does not continue then.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from duetime.scheduler.access.secret import SecretUse
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.http_request import NETWORK_RETRY
from duetime.scheduler.handlers.watch.check import WatchCheck
from duetime.scheduler.handlers.watch.expression import NotEvaluated, holds
from duetime.scheduler.handlers.watch.look import MAX_LASTING_ERRORS, Looker, NoValue
from duetime.scheduler.handlers.watch.payload import WatchPayload, problems
from duetime.scheduler.handlers.watch.record import SeenValue, WatchRecord
from duetime.scheduler.outbound.reply import Resolver, system_resolver
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.outcomes import Done, Failed, Outcome, Wait
from duetime.scheduler.rules.retry import ceiling
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.task import Json, RetryPolicy

MAX_WATCH_PAUSE: Final = timedelta(hours=1)
"""Longest time between two looks without a value, unless the interval is longer."""


class WatchOutcome(StrEnum):
    """The end of a watch, as `outcome` in its result."""

    MET = "met"
    CHANGED = "changed"
    FAILED = "failed"
    EXPIRED = "expired"


def watch(
    options: WebhookOptions | None = None,
    checks: Iterable[WatchCheck] = (),
    *,
    resolve: Resolver = system_resolver,
) -> Handler:
    """Build the handler, which offers these checks."""
    work = _Watch(options or WebhookOptions(), {check.name: check for check in checks}, resolve)
    return Handler(
        name="watch",
        fn=work.run,
        payload_model=WatchPayload,
        time_limit=timedelta(seconds=work.options.timeout + 10),
        description="Look at a URL at an interval until a condition holds, the value changes, or the time is over.",
        verify=work.verify,
        secrets=work.secrets,
        retry=NETWORK_RETRY,
        preflight=work.lacks,
        checked_early=False,
        interval=lambda payload: ("every", payload.interval),
    )


class _Watch:
    def __init__(self, options: WebhookOptions, checks: Mapping[str, WatchCheck], resolve: Resolver) -> None:
        self.options = options
        self._checks = checks
        self._looker = Looker(options, checks, resolve)

    def verify(self, payload: WatchPayload) -> Iterator[InvalidArgument]:
        """Check all that needs no name server: URL, headers, expression, interval and expiry."""
        yield from problems(payload, self.options, self._checks.keys())

    def secrets(self, payload: WatchPayload) -> Iterator[SecretUse]:
        """Yield the secrets that the headers name."""
        if payload.url is not None:
            yield from payload.request.secrets(self.options)

    def lacks(self, ctx: Context, payload: WatchPayload) -> str | None:
        """Say which check, secret or setting is missing by now; nothing is after its end, where it has to expire."""
        return self._looker.lacks(ctx, payload) if ctx.now() < _before(ctx, payload).until else None

    def run(self, ctx: Context, payload: WatchPayload) -> Outcome:
        """Look once, and return the end of the watch, or the wait for the next look."""
        before = _before(ctx, payload)
        after = _Judgement(ctx, payload, self._looker.place(payload), before)
        if ctx.now() >= before.until and (lacking := self._looker.lacks(ctx, payload)):
            return after.without_value(NoValue(lacking))
        try:
            return after.judged(self._looker.document(ctx, payload))
        except NoValue as error:
            return after.without_value(error)


def _before(ctx: Context, payload: WatchPayload) -> WatchRecord:
    """Return the record of the looks before this one."""
    now = ctx.now()
    return WatchRecord.of(ctx.checkpoint_state) or WatchRecord(now, payload.end(now))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The consequences of one look, from what was known before it."""

    ctx: Context
    payload: WatchPayload
    place: str
    before: WatchRecord

    def judged(self, document: Json) -> Outcome:
        """Return the outcome of a look that found a document; raises `NoValue` where the expression does not fit."""
        expression, value = self.payload.expression, document
        subject = document
        if expression is not None:
            try:
                value, subject = expression.value(document), expression.subject(document)
            except NotEvaluated as error:
                raise NoValue(str(error), tolerated=MAX_LASTING_ERRORS) from None
        if self.payload.condition is None:
            return self._compared(SeenValue.of(value))
        return self._met(SeenValue.of(subject), fulfilled=holds(value))

    def without_value(self, error: NoValue) -> Outcome:
        """Return the outcome of a look without a value: a failure when there were too many in a row."""
        record = self.before.missed()
        if record.errors >= error.tolerated:
            looks = f"; {record.errors} looks in a row found no value" if record.errors > 1 else ""
            return Failed(f"{error}{looks}", self._result(WatchOutcome.FAILED, record, status=error.status))
        again = f"; look {record.errors + 1} in a row without a value fails it" if _is_last(record, error) else ""
        return self._again(record, f"{error}{again}", _pause(record, self.payload.interval, error, self.ctx.run_id))

    def _met(self, seen: SeenValue, *, fulfilled: bool) -> Outcome:
        record = self.before.seen(seen)
        if not fulfilled:
            found = "nothing was found" if seen.shown is None else seen.words
            return self._again(record, f"not met yet: {found}", self.payload.interval)
        text = self.payload.message or f"{self.place}: {self.payload.condition} holds"
        return Done(f"{text} ({seen.words})", self._result(WatchOutcome.MET, record, value=seen.shown))

    def _compared(self, seen: SeenValue) -> Outcome:
        record, old = self.before.seen(seen), self.before.value
        if old is None or old.digest == seen.digest:
            return self._again(record, f"no change yet: {seen.words}", self.payload.interval)
        text = self.payload.message or f"{self.place} changed"
        values = {"old": old.shown, "new": seen.shown}
        return Done(f"{text} ({old.words} -> {seen.words})", self._result(WatchOutcome.CHANGED, record, **values))

    def _again(self, record: WatchRecord, reason: str, pause: timedelta) -> Outcome:
        """Wait for the next look; the last one is at the expiry, and what it finds wanting has expired."""
        now = self.ctx.now()
        if now >= record.until:
            looks = f"{record.looks} look{'s' if record.looks > 1 else ''}"
            text = f"{reason}; expired after {length(record.until - record.began)} and {looks}"  # the cause is cut last
            value = record.value.shown if record.value else None
            return Failed(text, self._result(WatchOutcome.EXPIRED, record, value=value), expired=True)
        self.ctx.progress(None, f"{record.looks} look{'s' if record.looks > 1 else ''} at {self.place}")
        return Wait(min(pause, record.until - now), reason, record.checkpoint())

    @staticmethod
    def _result(outcome: WatchOutcome, record: WatchRecord, **values: Json) -> Json:
        shown = {name: value for name, value in values.items() if value or name != "status"}
        return {"outcome": outcome.value, **shown, "looks": record.looks}


def _is_last(record: WatchRecord, error: NoValue) -> bool:
    return record.errors + 1 == error.tolerated


def _pause(record: WatchRecord, every: timedelta, error: NoValue, run_id: str) -> timedelta:
    """Return the time until the next look: it doubles with each error in a row, and is spread over runs."""
    policy = RetryPolicy(backoff=every / 2, max_backoff=max(every, MAX_WATCH_PAUSE))
    spread = zlib.crc32(f"{run_id} {record.looks}".encode()) / 0xFFFFFFFF
    longer = (ceiling(record.errors, policy) - every) * spread
    return max(every, error.after or timedelta(0)) + longer
