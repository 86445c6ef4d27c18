"""Runs one attempt of a handler, and turns any result or exception into one outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import DuetimeError, HandlerError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import tracebacks
from duetime.scheduler.handlers.context import Context, check_checkpoint
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Spawn, Wait, Yielded
from duetime.scheduler.rules.redact import redacted
from duetime.scheduler.rules.sanitize import check_json, clean_text
from duetime.scheduler.rules.signals.signal_waits import MAX_TIMEOUT, check_match, check_name
from duetime.scheduler.runtime.secret_mask import masked, masked_json, secrets_masked
from duetime.scheduler.task import ApprovalAnswer, Json
from duetime.scheduler.waits.approval import MAX_QUESTION_CHARS
from duetime.scheduler.waits.signal import SIGNAL_KEPT

MAX_RETRY_DELAY: Final = timedelta(days=5 * 366)
"""Five years: the longest wait for a next attempt."""

MAX_HANDLER_REASON_CHARS: Final = 500
_ENDING_IN_TIME: Final = {
    "event": "Wait(event='order.paid', timeout=timedelta(hours=1))",
    "approval": "Wait(approval='Pay 90 EUR?', by=timedelta(hours=1))",
}
"""A wait for each that ends in time, which is what `until` was meant for."""

MAX_EXCEPTION_CHARS: Final = 10_000
"""More of an exception is not read; redaction takes time."""
MAX_SUMMARY_CHARS: Final = 2000
MAX_SPAWN_BYTES: Final = 1024 * 1024
_NO_TEXT: Final = "<exception str() failed>"
_OUTCOME_TYPES = (Done, Retry, Wait, Yielded, Failed)
_OUTCOMES = ", ".join(outcome.__name__ for outcome in (Done, Spawn, Retry, Wait, Yielded, Failed))
_NO_REASON = "the handler gave no reason"

Awaiter = Callable[[Coroutine[Any, Any, Any]], Any]


def _forget(_traceback: str) -> None:
    return None


def run_handler(
    handler: Handler,
    ctx: Context,
    payload: Mapping[str, Json],
    *,
    wait_for: Awaiter = asyncio.run,
    on_error: Callable[[str], None] = _forget,
) -> Outcome:
    """Run one attempt and return its outcome.

    An exception becomes `Retry` with its type and text. A payload that no longer fits, and a return value that is no
    outcome, become `Failed`. Cancellation and interrupts (`asyncio.CancelledError`, Dramatiq's, `KeyboardInterrupt`)
    are raised, for the worker to settle. `wait_for` runs the coroutine of an async handler to its end. `on_error` is
    called with the traceback of an exception. Secrets that the attempt read are masked in all of these.
    """
    with secrets_masked():
        return _attempted(handler, ctx, payload, wait_for, on_error)


def _attempted(
    handler: Handler, ctx: Context, payload: Mapping[str, Json], wait_for: Awaiter, on_error: Callable[[str], None]
) -> Outcome:
    try:
        arguments = (ctx, handler.parse(payload)) if handler.takes_payload else (ctx,)
    except InvalidArguments as error:
        return refused_payload(handler, error)
    try:
        began = ctx.now()
        returned = handler.fn(*arguments)
        outcome = wait_for(returned) if asyncio.iscoroutine(returned) else returned
    except concurrent.futures.CancelledError:
        raise
    except SecretUnavailable as error:
        return Failed(clean_text(str(error), MAX_HANDLER_REASON_CHARS))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler raises is an outcome, never ours
        return _raised(error, handler, on_error)
    try:
        return checked_outcome(handler, outcome, began, ctx.now)
    except DuetimeError as error:
        return Failed(clean_text(str(error), MAX_HANDLER_REASON_CHARS))
    except Exception as error:  # noqa: BLE001 - of a value that it returned, as it becomes text
        return _raised(error, handler, on_error)


def refused_payload(handler: Handler, error: InvalidArguments) -> Failed:
    """Return the outcome of an attempt whose payload is refused."""
    return Failed(clean_text(f"the payload does not fit {handler.name}: {error}", MAX_HANDLER_REASON_CHARS))


def _raised(error: BaseException, handler: Handler, on_error: Callable[[str], None]) -> Retry:
    on_error(tracebacks.of_error(error, handler.fn))
    return Retry(explain(error))


def explain(error: BaseException) -> str:
    """Name an exception as a reason: `ValueError: no such file`, at most 500 characters. Credentials are redacted."""
    text = _without_credentials(error)
    name = type(error).__name__
    return clean_text(f"{name}: {text}" if text else name, MAX_HANDLER_REASON_CHARS)


def _without_credentials(failure: object) -> str:
    try:
        text = str(failure)
    except Exception:  # noqa: BLE001 - tracebacks have these words too
        text = _NO_TEXT
    return redacted(masked(text)[:MAX_EXCEPTION_CHARS]).strip()


def _reason(failure: object) -> str:
    """Return the reason of a failure, which is often the text of an exception that the handler caught."""
    text = clean_text(_without_credentials(failure), MAX_HANDLER_REASON_CHARS)
    return text if text.strip() else _NO_REASON


def checked_outcome(handler: Handler, outcome: object, began: datetime, now: Callable[[], datetime]) -> Outcome:
    """Return a storable outcome of an attempt that `began` then; raises for any other value."""
    if not isinstance(outcome, _OUTCOME_TYPES):
        raise HandlerError(
            f"handler {handler.name} returned {type(outcome).__name__}; it must return one of {_OUTCOMES}, "
            'as in Done(summary="resized")'
        )
    match outcome:
        case Done():
            result, spawned = _result(handler, outcome.result), _spawned(handler, outcome.spawn)
            return Done(_summary(handler, outcome.summary), result, bool(outcome.quiet), spawned)
        case Failed():
            return Failed(_reason(outcome.reason), _result(handler, outcome.result), bool(outcome.expired))
        case Retry():
            return Retry(_reason(outcome.reason), _delay(handler, outcome.after), _result(handler, outcome.result))
        case Wait():
            check_checkpoint(f"{handler.name}: checkpoint", outcome.checkpoint)
            return check_wait(f"{handler.name}: Wait", outcome, began, now())
        case Yielded():
            check_checkpoint(f"{handler.name}: checkpoint", outcome.checkpoint)
            return Yielded(outcome.checkpoint, _text(outcome.reason, MAX_HANDLER_REASON_CHARS))
        case _:
            assert_never(outcome)


def _summary(handler: Handler, given: object) -> str:
    if not isinstance(given, str):
        raise InvalidArgument(
            f"{handler.name}: Done.summary",
            f"{type(given).__name__} is not text",
            accepted="what the user reads; `result` keeps any JSON",
            example="Done(summary='resized')",
        )
    return _text(given, MAX_SUMMARY_CHARS)


def _text(value: object, maximum: int) -> str:
    return clean_text(masked(str(value)), maximum).strip()


def _result(handler: Handler, value: Json) -> Json:
    check_json(f"{handler.name}: result", value)
    return masked_json(value)


def _spawned(handler: Handler, steps: object) -> Sequence[Mapping[str, Json]]:
    """Return the tasks of a fan-out as JSON; the worker reads them as the steps of a chain are read."""
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise InvalidArgument(f"{handler.name}: Done.spawn", "it is not a list", accepted="a list of objects")
    for place, step in enumerate(steps):
        if not isinstance(step, Mapping):
            raise InvalidArgument(
                f"{handler.name}: Done.spawn[{place}]",
                "it is not an object",
                accepted="an object with a name",
                example="spawn=[{'name': 'fetch', 'action': 'webhook'}]",
            )
    if steps:
        check_json(f"{handler.name}: Done.spawn", list(steps), max_bytes=MAX_SPAWN_BYTES)
    return tuple(steps)


def _delay(handler: Handler, after: object) -> timedelta | None:
    if after is None or (isinstance(after, timedelta) and timedelta(0) <= after <= MAX_RETRY_DELAY):
        return after
    raise InvalidArgument(
        f"{handler.name}: Retry.after",
        "it is not a delay of at most 5 years",
        accepted="a timedelta from 0 to 5 years",
        example="timedelta(seconds=30)",
    )


def check_wait(place: str, wait: Wait, began: datetime, now: datetime) -> Wait:
    """Return a storable wait of an attempt that `began` then; raises InvalidArgument, which names the `place`."""
    reason = clean_text(masked(str(wait.reason)), MAX_HANDLER_REASON_CHARS)
    asked = [name for name in ("event", "approval", "until") if getattr(wait, name) not in (None, "")]
    if len(asked) > 1:
        problem = f"asks for {' and '.join(asked)} at once"
        raise InvalidArgument(
            place, problem, accepted="one of event, approval, until", example=_ENDING_IN_TIME[asked[0]]
        )
    if wait.event:
        return _for_event(place, wait, reason, began, now)
    if not wait.approval:
        return Wait(_until(f"{place}.until", wait.until, now), reason, wait.checkpoint)
    question, by = clean_text(masked(str(wait.approval)), MAX_QUESTION_CHARS), _until(f"{place}.by", wait.by, now)
    return Wait(None, reason, wait.checkpoint, question, by, _default(f"{place}.default", wait.default))


def _default(place: str, default: Any) -> ApprovalAnswer:
    try:
        return ApprovalAnswer(default)
    except ValueError:
        named = f"it is {default[:40]!r}" if isinstance(default, str) else f"it is a {type(default).__name__}"
        raise InvalidArgument(place, named, accepted=" or ".join(ApprovalAnswer), example="default='reject'") from None


def _for_event(place: str, wait: Wait, reason: str, began: datetime, now: datetime) -> Wait:
    """Return a wait for an event; without a lookback it misses none that its own attempt has brought about."""
    match = check_match(f"{place}.match", wait.match)
    check_checkpoint(f"{place}.match", match)
    name = check_name(f"{place}.event", wait.event)
    timeout = _until(f"{place}.timeout", wait.timeout, now, MAX_TIMEOUT)
    since = began if wait.lookback is None else _since(f"{place}.lookback", wait.lookback, now)
    return Wait(None, reason, wait.checkpoint, event=name, match=match, timeout=timeout, lookback=since)


def _since(place: str, since: object, now: datetime) -> datetime:
    if isinstance(since, timedelta) and timedelta(0) <= since <= SIGNAL_KEPT:
        return now - since
    if isinstance(since, datetime) and since.utcoffset() is not None and now - since <= SIGNAL_KEPT:
        return since
    raise InvalidArgument(
        place,
        "it is not within the last 7 days",
        accepted="a timedelta from 0, or an aware datetime, at most 7 days back",
        example="timedelta(hours=1)",
    )


def _until(place: str, until: object, now: datetime, most: timedelta = MAX_RETRY_DELAY) -> datetime | timedelta:
    if isinstance(until, timedelta) and timedelta(0) < until <= most:
        return until
    if isinstance(until, datetime) and until.utcoffset() is not None and until - now <= most:
        return until
    long = "5 years" if most is MAX_RETRY_DELAY else f"{most.days} days"
    raise InvalidArgument(
        place,
        _wrong_end(until, f"it is not within the next {long}"),
        accepted=f"an aware datetime or a timedelta above 0, at most {long} from now",
        example="timedelta(minutes=5)",
    )


def _wrong_end(until: object, too_far: str) -> str:
    if isinstance(until, timedelta):
        return too_far if until > timedelta(0) else f"it is {until}, which is not a time to wait"
    if not isinstance(until, datetime):
        return f"it is a {type(until).__name__}" if until is not None else "it is missing"
    return "it is a datetime without a time zone" if until.utcoffset() is None else too_far
