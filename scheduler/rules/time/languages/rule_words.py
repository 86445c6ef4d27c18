"""Recurrences in English: `jeden zweiten Dienstag im Monat` is `on the second tuesday of every month`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from duetime.scheduler.rules.time.languages import clock_words
from duetime.scheduler.rules.time.languages.clock_words import PhraseParts
from duetime.scheduler.rules.time.languages.lexicon import MINUTES_ADDED, Word
from duetime.scheduler.rules.time.languages.word_order import (
    HOUR_ORDER,
    PART_ORDER,
    TIME_ORDER,
    WINDOW_ORDER,
    first_match,
    order,
)
from duetime.scheduler.rules.time.tokens import ordinal_text

_DAYS: Final = "[weekday weekdays] (?:and? article? [weekday weekdays])*"
_EVERY: Final = (
    "(?P<rule> rule)"
    " | every (?P<count> number)? (?P<unit> [unit hours])"
    f" (?:article? (?P<on> {_DAYS}) | article (?P<on_date> [ordinal number]))?"
    f" | every (?P<interval> nth) (?P<of> unit) (?:article? (?P<on_of> {_DAYS}))?"
    " | (?P<each_nth> every)? article? (?P<nth> nth) (?P<kind> [weekday weekdays unit])"
    " (?P<of_month> [monthly ofmonth])?"
    f" | every (?P<weeks> number) (?P<in_weeks> {_DAYS})"
    " | number? (?P<alternate> weekday) alternate | (?P<alternate_plural> weekdays) alternate"
    " | every? (?P<plural> weekdays (?:and? every? weekdays)*)"
    " | every article? (?P<each> weekday (?:and? article? weekday)*)"
    " | article? (?P<date> [ordinal number]) [monthly ofmonth]"
    " | (?:every | article?) (?P<day_word> unit) (?P<day_number> number) (?P<day_of_month> [monthly ofmonth])?"
    " | every (?P<idiom> idiom)"
)


def _but(name: str) -> str:
    return f"(?:except article? (?P<{name}> {_DAYS} | holidays))?"


_TWO: Final = f"(?:(?P<joined> and) (?P<again> at)? (?P<second> {HOUR_ORDER}))?"
_TIMED: Final = f"{TIME_ORDER} (?P<part_behind> [part habit])? {_TWO}"
_UNTIL: Final = "(?:by article? (?P<until> day | edge? article? [ordinal number]? article? month article? year?))?"
_STEP: Final = "(?:every (?P<count> number)? (?P<step> [unit hours]) | (?P<step_word> rule))"
_ON: Final = f"(?:article? (?P<on> {_DAYS}) | (?P<rule_behind> rule))?"
_RULES: Final = tuple(
    map(
        order,
        (
            f"(?:(?P<habit> habit) | {_EVERY}) {_but('but')} {PART_ORDER} (?:{_TIMED})? {_but('but_behind')} {_UNTIL}",
            f"{TIME_ORDER} {PART_ORDER} {_TWO} (?:{_EVERY}) {_but('but')}",
            f"(?P<days> rule | weekdays (?:and? weekdays)*)? {_STEP} {WINDOW_ORDER} {_ON} {_but('but')} {_UNTIL}",
        ),
    )
)
"""A rule and a time in both orders, with what it leaves out, and a step between two times, before or after its days."""


def said_as_rule(words: Sequence[Word]) -> PhraseParts:
    """Return the parts of a recurrence, none for words that are none."""
    said = first_match(_RULES, words)
    dated = "day_number" in said and "day_of_month" not in said and words[0].kind != "every"
    one_day = "nth" in said and "of_month" not in said and "each_nth" not in said
    return {} if dated or one_day else said


def phrases(said: PhraseParts) -> Iterator[str]:
    """Yield a recurrence with its times of day: two where the words mean two, none where they do not go together."""
    if "first" in said:
        yield from _stepped(said)
        return
    for rule in _rules(said):
        yield from _timed(rule, said)


def _stepped(said: PhraseParts) -> Iterator[str]:
    """Yield `every weekday every 30 minutes between 9 and 17`."""
    step = said["step_word"][0].english if "step_word" in said else _interval({**said, "unit": said["step"]}, on=False)
    days = said.get("rule_behind") or said.get("days") or said.get("on") or ()
    each = days[0].english if days and days[0].kind == "rule" else f"every {_named(days)}" if days else ""
    if window := clock_words.window(said):
        yield " ".join(filter(None, (each, step, window))) + _left_out(said) + _end(said)


def _rules(said: PhraseParts) -> Iterator[str]:
    """Yield a recurrence without its times of day."""
    if "rule" in said:
        yield said["rule"][0].english
    elif "habit" in said:
        yield f"every {said['habit'][0].english}"
    elif "idiom" in said:
        yield from (f"every {length.removeprefix('1 ')}" for length in said["idiom"][0].english.split(" or "))
    elif "unit" in said:
        yield _interval(said)
    elif "nth" in said:
        yield from _of_month(said)
    elif "date" in said or "day_number" in said:
        number = said["date"] if "date" in said else said["day_number"]
        yield f"every month on the {ordinal_text(int(number[0].english))}"
    else:
        yield from _of_weekdays(said)


def _interval(said: PhraseParts, *, on: bool = True) -> str:
    count = said["count"][0].english if "count" in said else "1"
    every = clock_words.counted((Word("number", count), said["unit"][0])).removeprefix("1 ")
    days = _named(said["on"]) if on and "on" in said else ""
    if "on_date" in said:
        days = f"the {ordinal_text(int(said['on_date'][0].english))}"
    return f"every {every}{f' on {days}' if days else ''}"


def _of_month(said: PhraseParts) -> Iterator[str]:
    """Yield `on the first monday of every month`; `every second tuesday` can mean two things, as in English."""
    nth, kind = said["nth"][0].english, said["kind"][0]
    if kind.kind == "unit":
        if kind.english == "days" and "of_month" in said:
            yield f"{_of_which(said)[0]}the {nth} day {_of_which(said)[1]}"
        elif "each_nth" in said and "of_month" not in said:
            yield f"every {nth} {kind.english.rstrip('s')}"
    elif "of_month" in said:
        before, of = _of_which(said)
        yield f"{before}the {nth} {kind.english} {of}"
    else:
        yield f"every {nth} {kind.english}"


def _of_which(said: PhraseParts) -> tuple[str, str]:
    """Return the words around a day of each month, or of this one where nothing says each."""
    each = "each_nth" in said or said["of_month"][0].kind == "monthly"
    return ("on ", "of every month") if each else ("", "of the month")


def _of_weekdays(said: PhraseParts) -> Iterator[str]:
    if "interval" in said:
        on = f" on {_named(said['on_of'])}" if "on_of" in said else ""
        yield f"every {said['interval'][0].english} {said['of'][0].english.rstrip('s')}{on}"
    elif "weeks" in said:
        yield f"every {said['weeks'][0].english} weeks on {_named(said['in_weeks'])}"
    elif other := said.get("alternate") or said.get("alternate_plural"):
        yield f"every other {other[0].english}"
    else:
        yield f"every {_named(said['each'] if 'each' in said else said['plural'])}"


def _named(days: Sequence[Word]) -> str:
    return " and ".join(word.english for word in days if word.english and word.kind != "and")


def _timed(rule: str, said: PhraseParts) -> Iterator[str]:
    parts = [said[name][0].english for name in ("part", "part_behind") if name in said]
    clock = clock_words.clock(said, named=True)
    second = clock_words.clock({**said, "at": ()}, named=True, part="second") if "second" in said else ""
    if len(parts) > 1 or ("clock" in said and not clock) or (second and parts):
        return
    left_out, end = _left_out(said), _end(said)
    if not clock:
        yield " ".join((rule, *parts)) + left_out + end
    else:
        both = f" and {second}" if second else ""
        minutes = _added_minutes(clock, said)
        if minutes:
            yield f"{rule}{left_out} at {minutes}{end}"
        if not minutes or int(second) <= clock_words.MAX_CLOCK_HOURS:
            yield f"{rule}{left_out} {clock_words.in_part(clock_words.with_at(clock), parts)}{both}{end}"


def _left_out(said: PhraseParts) -> str:
    but = said.get("but") or said.get("but_behind") or ()
    if not but:
        return ""
    return " except public holidays" if but[0].kind == "holidays" else f" except {_named(but)}"


def _end(said: PhraseParts) -> str:
    return f" until {_words(said['until'])}" if "until" in said else ""


def _added_minutes(clock: str, said: PhraseParts) -> str:
    """Return the `9:10` of `a las nueve y diez`, empty where what is behind the conjunction is no number alone."""
    if "second" not in said or "again" in said or said["joined"][0].english != MINUTES_ADDED:
        return ""
    number, *unit = said["second"]
    hour = clock.removesuffix(":00")
    return f"{hour}:{int(number.english):02}" if hour.isdigit() and number.kind == "number" and not unit else ""


def _words(words: Sequence[Word]) -> str:
    return " ".join(word.english for word in words if word.english)
