"""Guarantees to every handler, and declarations that are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine
from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Context, Handler, Handlers, Link, handler, reminder, run_handler
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait, Yielded
from duetime.scheduler.rules.sanitize import MAX_JSON_BYTES
from duetime.scheduler.task import RetryPolicy, Run, State, Task
from pydantic import BaseModel, Field, SecretStr, field_validator

CTX = Context.for_test(run_id="r_1", title="Call John")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Size(BaseModel):
    width: int = Field(default=100, ge=1)


class Resize(BaseModel):
    path: str = Field(description="a path in the store", examples=["a.png"])
    size: Size = Size()
    times: list[int] = []

    @field_validator("path")
    @classmethod
    def is_no_secret(cls, path: str) -> str:
        if path.startswith("/etc"):
            raise ValueError("is not yours")
        return path


@handler("resize", payload=Resize, time_limit=30, retry=RetryPolicy(max_attempts=2))
def resize(ctx: Context, payload: Resize) -> Done:
    """Make an image smaller.

    And nothing else.
    """
    return Done(f"{ctx.title}: {payload.path} to {payload.size.width}")


def returning(value: object) -> Handler:
    return Handler(name="odd", fn=lambda _ctx: value)


def raising(error: BaseException) -> Handler:
    def work(ctx: Context) -> Outcome:
        raise error

    return Handler(name="odd", fn=work)


def problems(of: Handler, payload: Any) -> list[str]:
    with pytest.raises(InvalidArguments) as refused:
        of.check(payload)
    return [str(problem) for problem in refused.value.problems]


# --- declaring ------------------------------------------------------------------------------------------------------


def test_the_decorator_says_all_about_a_handler() -> None:
    assert (resize.name, resize.payload_model, resize.time_limit) == ("resize", Resize, timedelta(seconds=30))
    assert resize.retry == RetryPolicy(max_attempts=2)
    assert resize.description == "Make an image smaller."
    assert not resize.is_async
    assert resize.takes_payload


def test_a_declared_handler_is_still_called_like_a_function() -> None:
    assert resize(CTX, Resize(path="a.png")) == Done("Call John: a.png to 100")


@pytest.mark.parametrize("name", ["", "Resize", "1st", "a b", "a" * 65, "ä", "-a", "a\n", None, 5])
def test_a_wrong_name_is_refused_with_the_right_form(name: Any) -> None:
    with pytest.raises(HandlerError, match=r"a lower-case letter, then at most 63"):
        handler(name)(lambda _ctx: Done())


def test_the_decorator_without_a_name_is_refused_at_once() -> None:
    with pytest.raises(HandlerError, match=r'write @handler\("name"\)'):
        handler(lambda _ctx: Done())  # type: ignore[call-overload] # the mistake under test


@pytest.mark.parametrize("model", [dict, Resize(path="a"), "Resize", 5])
def test_a_payload_type_that_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(HandlerError, match=r"subclass pydantic\.BaseModel"):
        handler("x", payload=model)(lambda _ctx, _payload: Done())


def test_a_payload_with_a_secret_is_refused_because_it_could_not_be_stored() -> None:
    class Inner(BaseModel):
        token: SecretStr

    class Outer(BaseModel):
        inner: list[Inner]

    with pytest.raises(HandlerError, match="secret field"):
        handler("x", payload=Outer)(lambda _ctx, _payload: Done())


@pytest.mark.parametrize(
    ("fn", "model"),
    [
        (lambda *, ctx: ctx, None),
        (lambda _ctx: Done(), Resize),
        (lambda _ctx, _payload, _more: Done(), Resize),
        (lambda _ctx, *, _payload: Done(), Resize),
    ],
)
def test_a_function_of_other_arguments_is_refused_with_an_example(fn: Callable[..., Any], model: Any) -> None:
    with pytest.raises(HandlerError, match=r"its function must take .*as in def x\(ctx: Context"):
        handler("x", payload=model)(fn)


def test_a_model_that_only_the_annotation_names_is_refused_with_the_right_call() -> None:
    def work(ctx: Context, payload: Resize) -> Done:
        return Done(payload.path)

    with pytest.raises(HandlerError, match=r'write @handler\("shrink", payload=Resize\)'):
        handler("shrink")(work)  # type: ignore[arg-type] # the mistake under test


def test_an_annotation_that_cannot_be_read_is_no_mistake() -> None:
    def work(ctx: Context, payload: Unknown) -> Done:  # type: ignore[name-defined] # noqa: F821 - it is the case
        return Done(str(payload))

    assert handler("shrink")(work).takes_payload


def test_a_generator_or_a_class_is_refused() -> None:
    def yields(ctx: Context) -> Iterator[Done]:
        yield Done()

    async def yields_later(ctx: Context) -> AsyncIterator[Done]:
        yield Done()

    mistakes: tuple[Any, ...] = (yields, yields_later, Resize, resize, "resize")
    for wrong in mistakes:
        with pytest.raises(HandlerError, match="a plain def or async def"):
            handler("x")(wrong)


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(max_attempts=0),
        RetryPolicy(max_attempts=101),
        RetryPolicy(max_attempts=2.5),  # type: ignore[arg-type] # the mistake under test
        RetryPolicy(backoff="5 s"),  # type: ignore[arg-type] # the mistake under test
        RetryPolicy(backoff=timedelta(-1)),
        RetryPolicy(backoff=timedelta(hours=2), max_backoff=timedelta(hours=1)),
    ],
)
def test_a_retry_policy_that_no_task_may_have_is_refused_with_what_is_accepted(policy: RetryPolicy) -> None:
    with pytest.raises(HandlerError, match=r"max_attempts 1 to 100 .* say RetryPolicy\(max_attempts=3, backoff="):
        handler("resize", retry=policy)(lambda _ctx: Done())


@pytest.mark.parametrize("limit", [0, -1, 86_401, float("nan"), float("inf"), "30", True, None])
def test_a_time_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(HandlerError, match="time_limit"):
        handler("x", time_limit=limit)(lambda _ctx: Done())


# --- payloads -------------------------------------------------------------------------------------------------------


def test_a_payload_is_stored_with_its_defaults() -> None:
    assert resize.check({"path": "a.png"}) == {"path": "a.png", "size": {"width": 100}, "times": []}


def test_a_checked_payload_passes_the_check_again() -> None:
    stored = resize.check({"path": "a.png", "size": {"width": 7}})
    assert resize.check(stored) == stored


def test_all_mistakes_of_a_payload_are_reported_together_with_their_places() -> None:
    assert problems(resize, {"size": {"width": 0}, "times": [1, "x"], "pth": "a"}) == [
        "payload.pth: unknown field. Accepted: path, size, times (did you mean path?). Example: path='a', pth=null",
        "payload.path: it is required. Accepted: a path in the store. Example: a.png",
        "payload.size.width: should be greater than or equal to 1, got 0. Example: 1",
        "payload.times[1]: should be a valid integer, unable to parse string as an integer, got 'x'.",
    ]


class Pages(BaseModel):
    pages: int = Field(default=10, ge=1)


@pytest.mark.parametrize(("given", "example"), [(3, "pages=3, page=null"), (0, "page=null"), ([3], "page=null")])
def test_a_number_under_another_name_is_kept_where_the_field_takes_it(given: object, example: str) -> None:
    (said,) = problems(handler("embed", payload=Pages)(lambda _ctx, _payload: Done()), {"page": given})
    assert said.endswith(f"(did you mean pages?). Example: {example}")


def test_an_authors_own_check_speaks_in_its_own_words() -> None:
    assert problems(resize, {"path": "/etc/passwd"}) == [
        "payload.path: is not yours. Accepted: a path in the store. Example: a.png"
    ]


def test_an_error_shows_neither_a_long_value_nor_a_library() -> None:
    (sentence,) = problems(resize, {"path": "a", "times": "x" * 5000})
    assert len(sentence) < 120
    assert "pydantic" not in sentence
    assert "http" not in sentence


@pytest.mark.parametrize("payload", [None, [], "text", 5])
def test_a_payload_that_is_no_object_is_refused(payload: Any) -> None:
    said = problems(resize, payload)[0]
    assert re.match(r"payload: (null|a list|text|a number) is not an object\. Accepted: an object\. Example: ", said)


def test_a_payload_is_bounded_before_its_model_sees_it() -> None:
    assert "too large" in problems(resize, {"path": "x" * 70_000})[0]
    assert "U+0000" in problems(resize, {"path": "x\x00"})[0]


def test_members_that_defaults_add_do_not_count_towards_the_limit_of_a_payload() -> None:
    open_bytes = MAX_JSON_BYTES - len('{"path":""}')
    largest = {"path": "x" * open_bytes}
    assert resize.check(largest) == largest
    assert resize.check({"path": "a"}) == {"path": "a", "size": Size().model_dump(), "times": []}
    assert "too large" in problems(resize, {"path": "x" * (open_bytes + 1)})[0]


@pytest.mark.parametrize("raised", [SystemExit(3), KeyError("hunter2"), RecursionError()])
def test_any_exception_of_a_payload_model_is_a_refusal(raised: BaseException) -> None:
    class Wild(BaseModel):
        a: int = 1

        @field_validator("a")
        @classmethod
        def ends(cls, _value: int) -> int:
            raise raised

    with pytest.raises(InvalidArguments) as refused:
        Handler(name="wild", fn=lambda _ctx, _payload: Done(), payload_model=Wild).check({"a": 2})
    assert f"the payload model of wild raised {type(raised).__name__}" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("made", ["x" * 200_000, "a\0b", float("nan")])
def test_the_output_of_a_payload_model_is_checked_too(made: object) -> None:
    class Maker(BaseModel):
        a: str | float

        @field_validator("a")
        @classmethod
        def makes(cls, _value: object) -> object:
            return made

    with pytest.raises(InvalidArguments, match="payload"):
        Handler(name="maker", fn=lambda _ctx, _payload: Done(), payload_model=Maker).check({"a": 2})


def test_a_model_that_permits_more_fields_keeps_them() -> None:
    class Open(BaseModel, extra="allow"):
        a: int = 1

    assert Handler(name="open", fn=lambda _ctx, _payload: Done(), payload_model=Open).check({"b": 2}) == {
        "a": 1,
        "b": 2,
    }


def test_a_handler_without_a_payload_takes_none() -> None:
    bare = returning(Done())
    assert bare.check({}) == {}
    assert problems(bare, {"a": 1}) == ["payload: odd takes none. Accepted: no payload."]


def test_a_handler_without_a_model_gets_the_object_as_it_is() -> None:
    free = Handler(name="free", fn=lambda _ctx, payload: Done(result=payload))
    assert run_handler(free, CTX, free.check({"a": [1]})) == Done(result={"a": [1]})


# --- running --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome",
    [
        Done("done", {"n": 1}),
        Retry("busy", timedelta(seconds=5)),
        Retry("busy"),
        Wait(timedelta(minutes=1), "soon", {"at": 3}),
        Wait(NOW, "then"),
        Wait(event="paid", match={"order.id": 7}, timeout=timedelta(hours=1), lookback=NOW),
        Yielded({"at": 3}, "room"),
        Failed("no", [1]),
    ],
)
@time_machine.travel(NOW, tick=False)  # a lookback ends 7 days back
def test_each_outcome_comes_out_as_it_was_returned(outcome: Outcome) -> None:
    assert run_handler(returning(outcome), CTX, {}) == outcome


def test_an_async_handler_runs_to_its_end() -> None:
    @handler("later", payload=Size)
    async def later(ctx: Context, payload: Size) -> Done:
        await asyncio.sleep(0)
        return Done(result=payload.width)

    assert later.is_async
    assert run_handler(later, CTX, {"width": 3}) == Done(result=3)


def test_the_caller_chooses_where_a_coroutine_runs() -> None:
    @handler("later")
    async def later(ctx: Context) -> Done:
        return Done("never run here")

    def elsewhere(coroutine: Any) -> Done:
        coroutine.close()
        return Done("elsewhere")

    assert run_handler(later, CTX, {}, wait_for=elsewhere) == Done("elsewhere")


@pytest.mark.parametrize("returned", [None, True, "done", {"ok": 1}, Done, (Done(),)])
def test_a_value_that_is_not_an_outcome_fails_and_lists_all(returned: object) -> None:
    outcome = run_handler(returning(returned), CTX, {})
    assert isinstance(outcome, Failed)
    assert f"handler odd returned {type(returned).__name__}" in outcome.reason
    assert "Done, Spawn, Retry, Wait, Yielded, Failed" in outcome.reason


@pytest.mark.parametrize("kind", [Failed, Retry])
def test_a_failure_without_a_reason_says_that_there_is_none(kind: type[Failed | Retry]) -> None:
    for reason in ("", " \n"):
        assert run_handler(returning(kind(reason)), CTX, {}) == kind("the handler gave no reason")


@pytest.mark.parametrize(
    ("outcome", "named"),
    [
        (Done(result={1, 2}), "odd: result"),  # type: ignore[arg-type]  # a mistake that type checkers find too
        (Done(result="x" * 70_000), "odd: result"),
        (Failed("no", result=float("nan")), "odd: result"),
        (Yielded(checkpoint=object()), "odd: checkpoint"),  # type: ignore[arg-type]  # the same
        (Wait(timedelta(0)), "odd: Wait.until: it is 0:00:00, which is not a time to wait"),
        (Wait(datetime(2026, 1, 1)), "odd: Wait.until: it is a datetime without a time zone"),  # noqa: DTZ001 - the mistake
        (Wait("tomorrow"), "odd: Wait.until: it is a str"),  # type: ignore[arg-type] # the mistake under test
        (Wait(timedelta.max), "odd: Wait.until"),
        (Wait(timedelta(days=6 * 366)), "odd: Wait.until: it is not within the next 5 years"),
        (Wait(datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))), "odd: Wait.until"),
        (Wait(event="two words"), "odd: Wait.event"),
        (Wait(event="paid", approval="Pay?"), "odd: Wait: asks for event and approval at once. Accepted: one of"),
        (Wait(timedelta(1), event="paid"), "odd: Wait: asks for event and until at once. Accepted: one of"),
        (Wait(timedelta(0), approval="Pay?"), "odd: Wait: asks for approval and until at once. Accepted: one of"),
        (Wait(approval="Pay?", default="maybe"), "odd: Wait.default: it is 'maybe'. Accepted: approve or reject."),  # type: ignore[arg-type] # the mistake under test
        (Wait(approval="Pay?", default=True), "odd: Wait.default: it is a bool. Accepted: approve or reject."),  # type: ignore[arg-type] # the mistake under test
        (Wait(event="paid", timeout=timedelta(0)), "odd: Wait.timeout"),
        (Wait(event="paid", timeout=timedelta(days=367)), "odd: Wait.timeout"),
        (Wait(event="paid", lookback=timedelta(days=8)), "odd: Wait.lookback"),
        (Wait(event="paid", lookback=timedelta(-1)), "odd: Wait.lookback"),
        (Wait(event="paid", lookback=datetime(2026, 1, 1, tzinfo=UTC)), "odd: Wait.lookback"),
        (Wait(event="paid", match=[7]), "odd: Wait.match"),  # type: ignore[arg-type] # the mistake under test
        (Wait(event="paid", match={"a": float("inf")}), "odd: Wait.match"),
        (Wait(event="paid", match={str(n): n for n in range(21)}), "odd: Wait.match"),
        (Retry("x", timedelta(seconds=-1)), "odd: Retry.after"),
        (Retry("x", timedelta.max), "odd: Retry.after"),
        (Retry("x", timedelta(days=10_000_000)), "odd: Retry.after"),
        (Retry("x", 30), "odd: Retry.after"),  # type: ignore[arg-type] # the mistake under test
    ],
)
def test_an_outcome_that_cannot_be_stored_fails_and_names_the_part(outcome: Outcome, named: str) -> None:
    found = run_handler(returning(outcome), CTX, {})
    assert isinstance(found, Failed)
    assert found.reason.startswith(named)


def test_texts_of_outcomes_are_made_safe_to_store() -> None:
    assert run_handler(returning(Done("a\x00b\ud800")), CTX, {}) == Done("a\ufffdb\ufffd")
    found = run_handler(returning(Done("x" * 5000)), CTX, {})
    assert isinstance(found, Done)
    assert len(found.summary) == 2000


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such file"), "ValueError: no such file"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError"),
        (SystemExit(3), "SystemExit: 3"),
        (ExceptionGroup("both", [ValueError("a")]), "ExceptionGroup: both (1 sub-exception)"),
    ],
)
def test_an_exception_is_a_retry_with_its_name_and_text(error: BaseException, reason: str) -> None:
    assert run_handler(raising(error), CTX, {}) == Retry(reason)


class Wordless(Exception):
    """Has no text, by a mistake of its class."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_an_exception_whose_text_cannot_be_had_is_a_failed_attempt_too() -> None:
    said: list[str] = []
    assert run_handler(raising(Wordless()), CTX, {}, on_error=said.append) == Retry(
        "Wordless: <exception str() failed>"
    )
    assert "Wordless" in said[0]
    assert run_handler(returning(Failed(Wordless())), CTX, {}) == Failed("<exception str() failed>")  # type: ignore[arg-type] # a mistake


def test_an_outcome_whose_text_cannot_be_had_is_a_failed_attempt() -> None:
    said: list[str] = []
    returned = returning(Yielded(reason=Wordless()))  # type: ignore[arg-type] # the mistake under test
    assert run_handler(returned, CTX, {}, on_error=said.append) == Retry("ZeroDivisionError")
    assert "ZeroDivisionError" in said[0]


def test_the_text_of_an_exception_is_bounded() -> None:
    found = run_handler(raising(ValueError("x" * 10_000)), CTX, {})
    assert isinstance(found, Retry)
    assert len(found.reason) == 500


class Interrupt(BaseException):
    """As a worker raises it in a handler's thread."""


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), concurrent.futures.CancelledError(), KeyboardInterrupt(), Interrupt()]
)
def test_cancellation_and_interrupts_are_left_to_the_worker(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run_handler(raising(error), CTX, {})


def test_a_stored_payload_that_no_longer_fits_fails_before_the_function_runs() -> None:
    outcome = run_handler(resize, CTX, {"size": {"width": "wide"}})
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("the payload does not fit resize: payload.path: it is required.")


# --- the context ----------------------------------------------------------------------------------------------------


def test_the_idempotency_key_is_the_same_in_every_attempt() -> None:
    keys = {Context.for_test(run_id="r_7", attempt=attempt).idempotency_key for attempt in (1, 2, 3)}
    assert keys == {"r_7"}


def test_a_checkpoint_reaches_the_worker_and_says_whether_it_was_kept() -> None:
    saved: list[Any] = []
    assert Context.for_test(link=Link(save=saved.append)).checkpoint({"at": 1})
    assert saved == [{"at": 1}]
    assert not Context.for_test(link=Link(save=lambda _state: False)).checkpoint({"at": 1})


def test_a_checkpoint_that_is_no_json_is_refused() -> None:
    saved: list[Any] = []
    with pytest.raises(InvalidArgument, match="checkpoint"):
        Context.for_test(link=Link(save=saved.append)).checkpoint({"at": NOW})  # type: ignore[dict-item]  # the same
    assert saved == []


def test_progress_is_a_part_of_the_work_and_a_word_about_it() -> None:
    shown: list[Any] = []
    ctx = Context.for_test(link=Link(report=shown.append))
    assert ctx.progress(0.5, "half\x00")
    assert ctx.progress(1)
    assert shown == [{"fraction": 0.5, "text": "half\ufffd"}, {"fraction": 1.0, "text": ""}]


@pytest.mark.parametrize("given", [Done("merged \n"), Failed(" merged "), Retry("merged\n"), Yielded(None, "merged ")])
def test_a_text_of_a_handler_is_stored_without_blanks_around_it(given: Outcome) -> None:
    found = run_handler(returning(given), CTX, {})
    assert not isinstance(found, Wait)
    assert (found.summary if isinstance(found, Done) else found.reason) == "merged"


@pytest.mark.parametrize("summary", [None, 5, {"pages": 3}])
def test_a_summary_that_is_no_text_fails_with_what_is_accepted(summary: Any) -> None:
    outcome = run_handler(returning(Done(summary)), CTX, {})
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith(f"odd: Done.summary: {type(summary).__name__} is not text.")
    assert outcome.reason.endswith("Example: Done(summary='resized')")


def test_a_wrong_fraction_is_refused_with_one_that_can_be_sent_back() -> None:
    with pytest.raises(InvalidArgument, match=r"Example: fraction=0\.5$"):
        Context.for_test().progress(1.5)


def test_progress_may_be_called_often_and_is_written_seldom() -> None:
    clock = [NOW]
    shown: list[Any] = []
    link = Link(report=shown.append, now=lambda: clock[0])
    ctx = Context.for_test(link=link, pace=timedelta(seconds=0.2))
    for step in range(1, 1001):
        assert ctx.progress(step / 1000)
        clock[0] += timedelta(milliseconds=1)
    assert [report["fraction"] for report in shown] == [0.001, 0.201, 0.401, 0.601, 0.801, 1.0]
    clock[0] -= timedelta(hours=1)
    ctx.progress(0.5)
    assert len(shown) == 7


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf"), "half"])
def test_progress_beyond_the_work_is_refused(fraction: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"0\.0 to 1\.0"):
        CTX.progress(fraction)


def test_the_signals_of_the_worker_are_asked_each_time() -> None:
    stop = iter([False, True])
    ctx = Context.for_test(link=Link(cancelled=lambda: next(stop), should_yield=lambda: True, now=lambda: NOW))
    assert [ctx.cancelled, ctx.cancelled] == [False, True]
    assert ctx.should_yield()
    assert ctx.now() == NOW


def test_a_context_is_built_from_a_claimed_run() -> None:
    task = Task(
        id="t_1",
        tenant="local",
        owner="local",
        title="Call John",
        action="resize",
        payload={},
        timezone="UTC",
        when="now",
        repeat=None,
        anchor=NOW,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=(),
        labels=("a",),
        revision=1,
        created_at=NOW,
        updated_at=NOW,
    )
    run = Run(
        id="r_1",
        task_id="t_1",
        tenant="local",
        scheduled_for=NOW,
        state=State.RUNNING,
        attempt=2,
        checkpoint={"at": 1},
    )
    ctx = Context.of(task, run, worker="w", link=Link())
    assert (ctx.task_id, ctx.run_id, ctx.title, ctx.attempt, ctx.worker) == ("t_1", "r_1", "Call John", 2, "w")
    assert ctx.pace == timedelta(seconds=0.2)
    assert (ctx.scheduled_for, ctx.labels, ctx.checkpoint_state, ctx.deadline) == (NOW, ("a",), {"at": 1}, None)


# --- the reminder ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "said"),
    [({}, "Call John"), ({"message": "Bring the contract"}, "Bring the contract"), ({"message": " "}, "Call John")],
)
def test_a_reminder_says_its_message_or_its_title(payload: dict[str, Any], said: str) -> None:
    assert run_handler(reminder, CTX, reminder.check(payload)) == Done(said)


def test_the_built_in_handlers_are_reminder_and_webhook() -> None:
    assert list(Handlers.load(entry_points=False)) == ["reminder", "webhook", "watch"]


@pytest.mark.parametrize("outcome", [Failed, Retry])
def test_a_reason_that_quotes_an_exception_is_stored_without_its_credentials(outcome: type[Failed | Retry]) -> None:
    said = run_handler(returning(outcome("cannot reach redis://:hunter2@cache:6379/0")), CTX, {})
    assert said == outcome("cannot reach redis://:***@cache:6379/0")
