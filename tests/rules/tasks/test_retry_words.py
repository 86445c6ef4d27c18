"""Retries in words become the numbers of a policy; words that are not understood are refused, and none is guessed."""

from __future__ import annotations

import pytest
from duetime.scheduler.rules.failures.retry_words import retry_members, seconds_in_words, understood


@pytest.mark.parametrize(
    ("words", "attempts", "pauses"),
    [
        ("5 times, 30 s apart", 6, (30, 60)),
        ("3 attempts, doubling from 10 s", 3, (10, None)),
        ("retry 3 times", 4, (None, None)),
        ("try 5 times", 5, (None, None)),
        ("try again 5 times", 6, (None, None)),
        ("5 times in total", 5, (None, None)),
        ("5 times total", 5, (None, None)),
        ("5x total, 30 s apart", 5, (30, 60)),
        ("tried at most 5 times", 5, (None, None)),
        ("tried 5 times", 5, (None, None)),
        ("tried again 5 times", 6, (None, None)),
        ("3 tries every 2 minutes", 3, (120, 240)),
        ("up to five times, one minute apart", 6, (60, 120)),
        ("Twice, 10 minutes apart.", 3, (600, 1200)),
        ("once", 2, (None, None)),
        ("no retries", 1, (None, None)),
        ("3", 3, (None, None)),
        ("5 attempts with exponential backoff starting at 10s, max 1 hour", 5, (10, 3600)),
        ("every 5 minutes, 10 times", 11, (300, 600)),
        ("three times every half an hour", 4, (1800, 3600)),
        ("max 3 retries, 2 min between attempts", 4, (120, 240)),
        ("retries: 3, delay: 5 s", 4, (5, 10)),
        ("3 attempts, backoff 30 s", 3, (30, None)),
        ("wait 1 minute and retry twice", 3, (60, 120)),
        ("5 attempts, 1 hour and 30 minutes apart", 5, (5400, 10800)),
        ("30 s apart", None, (30, 60)),
        ("3 times, about 10 minutes apart, on failure", 4, (600, 1200)),
        ("3 retries, 10 minutes.", 4, (600, 1200)),
        ("3 attempts, 500 ms apart", 3, (1, 2)),
    ],
)
def test_a_sentence_is_read_as_attempts_and_pauses(
    words: str, attempts: int | None, pauses: tuple[int | None, int | None]
) -> None:
    read = retry_members(words)
    found = (read.get("max_attempts"), read.get("backoff_seconds"), read.get("max_backoff_seconds"))
    assert found == (attempts, *pauses)


@pytest.mark.parametrize(
    "words",
    ["often", "5 times when it rains", "5 times in 10 minutes", "later", "5 mondays"],
)
def test_words_that_are_not_understood_are_refused_with_the_part_that_is_not(words: str) -> None:
    with pytest.raises(ValueError, match="is not understood"):
        retry_members(words)


def test_the_understood_part_of_a_sentence_is_found() -> None:
    assert understood("5 attempts, 10 s apart, on mondays") == {
        "max_attempts": 5,
        "backoff_seconds": 10,
        "max_backoff_seconds": 20,
    }
    assert understood("often") == {}


def test_a_length_of_time_is_whole_seconds() -> None:
    assert (seconds_in_words("2 minutes"), seconds_in_words("1.5 s")) == (120, 2)
    with pytest.raises(ValueError, match="is not a length of time"):
        seconds_in_words("a while")
