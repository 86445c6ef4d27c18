"""Templates of idempotency keys: what they stand for, and what is refused with the corrected one."""

from __future__ import annotations

from ast import literal_eval
from datetime import UTC, datetime, timedelta, timezone

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.series.natural_key import check_template, field_values, template_of, window_text
from hypothesis import given
from hypothesis import strategies as st

NINE = datetime(2026, 11, 24, 9, tzinfo=UTC)
LABELS = ("account:acme", "region=eu", "plain")


def filled(text: str, labels: tuple[str, ...] = LABELS) -> tuple[str, str]:
    """Return the key of a call and that of a run at nine."""
    template = template_of(text)
    assert template is not None
    values = field_values(template, "t1", "ann", "report", labels)
    return template.of_call(values), template.of_run(values, NINE)


@pytest.mark.parametrize(
    ("text", "of_call", "of_run"),
    [
        ("{tenant}:{label.account}:{window}", "t1:acme:{window}", "t1:acme:2026-11-24T09:00Z"),
        ("{user}/{action}/{label.region}", "ann/report/eu", "ann/report/eu"),
        ("{{x}}{window}", "{{x}}{window}", "{x}2026-11-24T09:00Z"),
    ],
)
def test_a_template_gives_the_key_of_a_call_and_that_of_a_run(text: str, of_call: str, of_run: str) -> None:
    assert filled(text) == (of_call, of_run)


@pytest.mark.parametrize("text", ["plain", "a b", "{{}}", "{{tenant}}", ""])
def test_a_text_without_fields_is_no_template(text: str) -> None:
    assert template_of(text) is None


@pytest.mark.parametrize(
    ("text", "problem", "example"),
    [
        ("{tenat}:{window}", "'{tenat}' is not a field", "{tenant}:{window}"),
        ("{Window}", "'{Window}' is not a field", "{window}"),
        ("{label}:{window}", "'{label}' is not a field", "{label.account}:{window}"),
        ("{0}", "'{0}' is not a field", "{window}"),
        ("{}", "'{}' is not a field", "{window}"),
        ("{label.}", "'{label.}' is not a field", "{label.account}"),
        ("{window:%d}", "'{window:%d}' is not a field", "{window}"),
        ("{tenant!r}", "'{tenant!r}' is not a field", "{tenant}"),
        ("{tenant}:{window", "a brace without its other half", "{tenant}:{window}"),
        ("{tenant}:{window}}", "a brace without its other half", "{tenant}:{window}"),
        ("a}b", "a brace without its other half", "{tenant}:{label.account}:{window}"),
    ],
)
def test_a_malformed_template_is_refused_with_the_corrected_one(text: str, problem: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        template_of(text)
    assert problem in refused.value.problem
    assert refused.value.example == f"idempotency_key={example!r}"
    assert "{label.NAME}" in (refused.value.accepted or "")


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ((), "no label 'account:...'"),
        (("account",), "no label 'account:...'"),
        (("account:",), "no label 'account:...'"),
        (("accounts:acme",), "no label 'account:...'"),
        (("account:a", "account=b"), "several labels 'account:...'"),
    ],
)
def test_a_label_that_a_task_lacks_or_has_twice_is_refused(labels: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        filled("{label.account}", labels)
    assert problem in refused.value.problem
    assert refused.value.example == "labels=['account:acme']"


def test_a_label_that_is_given_twice_is_one() -> None:
    assert filled("{label.account}", ("account:a", "account=a"))[1] == "a"


def test_a_recurring_task_needs_the_window_in_its_key() -> None:
    template = template_of("{tenant}")
    assert template is not None
    check_template("{tenant}", template, {"tenant": "t1"}, recurring=False)
    with pytest.raises(InvalidArgument, match=r"without \{window\}") as refused:
        check_template("{tenant}", template, {"tenant": "t1"}, recurring=True)
    assert refused.value.example == "idempotency_key='{tenant}:{window}'"


def test_a_key_that_is_too_long_with_its_fields_is_refused() -> None:
    text = "{user}{window}"
    template = template_of(text)
    assert template is not None
    check_template(text, template, {"user": "u" * 173}, recurring=True)
    with pytest.raises(InvalidArgument, match="it has 201 characters"):
        check_template(text, template, {"user": "u" * 174}, recurring=True)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NINE, "2026-11-24T09:00Z"),
        (NINE + timedelta(seconds=7, microseconds=9), "2026-11-24T09:00:07.000009Z"),
        (NINE.astimezone(timezone(timedelta(hours=1))), "2026-11-24T09:00Z"),
    ],
)
def test_a_window_is_written_in_utc_with_seconds_if_it_has_them(at: datetime, text: str) -> None:
    assert window_text(at) == text


@given(st.text(max_size=60))
def test_any_text_is_a_key_or_refused_with_a_template_that_is_accepted(text: str) -> None:
    try:
        template_of(text)
    except InvalidArgument as refused:
        example = (refused.example or "").removeprefix("idempotency_key=")
        assert template_of(literal_eval(example)) is not None


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_labels_have_two_keys_whatever_braces_they_have(one: str, other: str) -> None:
    keys = {filled("{label.a}:{window}", (f"a:x{value}x",)) for value in (one, other)}
    assert len({of_call for of_call, _ in keys}) == len({of_run for _, of_run in keys}) == len({one, other})
