"""Everyday times and recurrences in other languages, as the same in English: `morgen um 9` is `tomorrow at 9`.

Every reader of words (times, recurrences, bounds of filters) asks here for what it does not know. Each word stands for
one of English, so a phrase means what its English twin means. A phrase with a word that is not in the tables, or in an
order that is not here, has no twin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from duetime.scheduler.rules.time.languages import clock_words, rule_words
from duetime.scheduler.rules.time.languages.clock_words import PhraseParts
from duetime.scheduler.rules.time.languages.lexicon import AT, Word, words_of
from duetime.scheduler.rules.time.languages.word_order import (
    LENGTH_ORDER,
    PART_ORDER,
    TIME_ORDER,
    WINDOW_ORDER,
    first_match,
    order,
)
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, Misread, ordinal_text

MAX_TRANSLATED_CHARS: Final = 60
"""Longer phrases are in English, or in nothing that is read."""

_BY: Final = "(?P<by> [by limit before ago])?"
_DATE: Final = "(?:weekday article?)? unit? (?:[ordinal number] article? month article? year? | date year?)"
_WEEK: Final = "into? article? (?:weekday into? article? article?)? [unit weeknumber] number (?:article? year)?"
_DAY: Final = (
    "article? (?P<day> day | next? weekday next? | weekday article? nextweek | nextweek article? weekday | nextweek"
    f" | {_DATE} | edge article? month article? year? | {_WEEK})"
)
_SPAN: Final = f"(?P<length> {LENGTH_ORDER}) (?:and? (?P<more> {LENGTH_ORDER}))?"
_FROM: Final = "into (?P<distance> number unit | length) | (?P<later> later)"
_TIMES: Final = tuple(
    map(
        order,
        (
            "(?P<lead> into) (?P<idiom> idiom)",
            f"ago (?P<past> {LENGTH_ORDER}) | (?P<past_before> {LENGTH_ORDER}) ago",
            f"(?P<lead> [into within limit]) {_SPAN} (?:{TIME_ORDER})?",
            f"{_SPAN} (?P<afterwards> afterwards)",
            f"article? (?P<base> weekday | day) (?:{_FROM}) (?:{TIME_ORDER})?",
            "(?P<by> [by limit before ago]) article? (?P<month> month year?)",
            f"article? (?P<late> late) (?:{TIME_ORDER})?",
            f"article (?P<nth> number) {TIME_ORDER}",
            f"{_BY} {_DAY} {PART_ORDER} (?:{TIME_ORDER} (?P<part_behind> [part habit])?)?",
            f"{_BY} {TIME_ORDER} {PART_ORDER} (?:{_DAY} (?P<part_behind> [part habit])?)?",
            f"(?:{_DAY})? {WINDOW_ORDER}",
            f"{WINDOW_ORDER} {_DAY}",
        ),
    )
)
"""An idiom, a length ago, a length to come or after something, a week from a day, and the night.

Behind them, in both orders, stand a day and a time, and a day and a window.
"""

_LENGTHS: Final = (order(_SPAN), order(f"within {_SPAN}"))
_WEEK_UNITS: Final = (Word("unit", "weeks"), Word("weeknumber", ""))
_CALENDAR_UNITS: Final = ("day", "days", "week", "weeks", "month", "months")
_OR: Final = " or "
"""Stands between the English of words that mean two days."""

_TO_MIDNIGHT: Final = frozenset({"today", "this evening", "tonight"})


def twins(text: str) -> Mapping[str, str]:
    """Return the English phrases of the same meaning, each with the language that it is read in.

    There are several where a phrase is ambiguous, and none where it is in none of the languages.
    """
    if len(text) > MAX_TRANSLATED_CHARS:
        return {}
    found: dict[str, str] = {}
    for language, words in words_of(text):
        for english in _phrases(words):
            found.setdefault(english, language)
    return found


def twin(text: str) -> str | None:
    """Return the English phrase of the same meaning, None without one. Raises Misread where there are several."""
    found = tuple(twins(text))
    if len(found) > 1:
        raise Misread("can mean two things", *found)
    return found[0] if found else None


def length_twin(text: str) -> str | None:
    """Return a length of time in English, without what stands before it: `30 minutes`; None for what is none."""
    if len(text) > MAX_TRANSLATED_CHARS:
        return None
    for _, words in words_of(text):
        if (said := first_match(_LENGTHS, words)) and (length := clock_words.span(said)):
            return length
    return None


def _phrases(words: Sequence[Word]) -> Iterator[str]:
    """Yield the English of these words: nothing for an order that is not known."""
    if rules := rule_words.said_as_rule(words):
        yield from rule_words.phrases(rules)
    elif [word.kind for word in words] in (["number", "hours"], ["number", "hours", "number"]):  # `22 uur`, `20h30`
        yield from _hour_or_length(words)
    elif said := first_match(_TIMES, words):
        yield from _time_phrases(said)


def _hour_or_length(words: Sequence[Word]) -> Iterator[str]:
    hour, minute = words[0].english, words[2].english if len(words) > 2 else "0"  # noqa: PLR2004 - `20h30`
    if clock_words.MINUTES.fullmatch(minute.zfill(2)):
        yield f"at {hour}:{minute.zfill(2)}"
        yield f"in {clock_words.counted(words[:2])}" + (f" and {minute} minutes" if int(minute) else "")


def _time_phrases(said: PhraseParts) -> Iterator[str]:
    if "idiom" in said:
        yield from (f"in {length}" for length in said["idiom"][0].english.split(" or "))
    elif past := said.get("past") or said.get("past_before"):
        yield f"{clock_words.counted(past)} ago"
    elif "lead" in said or "afterwards" in said:
        yield from _length(said)
    elif "base" in said:
        distance = said["later"][0].english if "later" in said else clock_words.counted(said["distance"])
        yield from _with_clock(f"{distance} from {_day(said['base'])}", said)
    elif "month" in said:
        yield f"{'before' if _limit(said['by'][0]) == 'before' else 'until'} {_day(said['month'])}"
    elif "late" in said:
        yield from (
            clock_words.at_night(clock_words.clock(said, named=True)) if "clock" in said else ("tonight at 23:00",)
        )
    elif "nth" in said:
        yield from _with_clock(f"the {ordinal_text(int(said['nth'][0].english))}", said) if "at" in said else ()
    else:
        yield from _window(said) if "first" in said else _day_and_time(said)


def _with_clock(day: str, said: PhraseParts) -> Iterator[str]:
    clock = clock_words.clock(said, named=True)
    if clock or "clock" not in said:
        yield f"{day} at {clock}" if clock else day


def _length(said: PhraseParts) -> Iterator[str]:
    length = clock_words.span(said)
    if "afterwards" in said:
        yield from (f"{length} {behind.english}" for behind in said["afterwards"] if length)
        return
    (lead,) = said["lead"]
    word = {"into": "in", "within": "within"}.get(lead.kind, lead.english)
    if length and "clock" not in said:
        yield f"{word} {length}"
    elif length.endswith(_CALENDAR_UNITS) and (clock := clock_words.clock(said, named=True)):
        yield f"in {length} at {clock}"


def _day_and_time(said: PhraseParts) -> Iterator[str]:
    (limit,) = said.get("by", (Word("", ""),))
    days, by = _day(said.get("day", ())), _limit(limit)
    parts = [said[name][0].english for name in ("part", "part_behind") if name in said]
    if limit == Word("before", AT):
        said = {"at": (limit,), **said}
    clock = clock_words.clock(said, named=bool(days or parts or by == "by"))
    if len(parts) > 1 or ("clock" in said and not clock) or by == "ago":
        return
    for day in days.split(_OR):
        found = _placed(day, parts, clock)
        if found and by == "before":
            yield f"before {found.removeprefix('at ')}"
        elif found:
            yield f"by {found.removeprefix('at ')}" if by and not found.startswith("end of") else found


def _window(said: PhraseParts) -> Iterator[str]:
    window = clock_words.window(said)
    yield from (f"{day} {window}".strip() for day in _day(said.get("day", ())).split(_OR) if window)


def _limit(word: Word) -> str:
    """Return the kind of a word before an end; German `vor` stands before a length of time ago as well."""
    return word.english if word.kind == "ago" and word.english else word.kind


def _placed(day: str, parts: Sequence[str], clock: str) -> str:
    """Return a day with a time of day, or one of them."""
    if clock == "midnight" and day in _TO_MIDNIGHT:
        return "tonight at midnight"
    if day:
        return " ".join((day, *parts, *((clock_words.with_at(clock),) if clock else ())))
    return clock_words.in_part(clock_words.with_at(clock), parts) if clock else ""


def _day(words: Sequence[Word]) -> str:
    """Return a day in English, which has the word for the coming one first and that for the week last."""
    kinds = [word.kind for word in words]
    if "number" in kinds and kinds[kinds.index("number") - 1] in {"unit", "weeknumber"} and "month" not in kinds:
        return _numbered(words, kinds.index("number"))
    named = [
        Word(word.kind, _in_english(word))
        for word in words
        if word.kind != "unit" and (word.english or word.kind == "nextweek")
    ]
    place = {"next": 0, "nextweek": 2}
    return " ".join(word.english for word in sorted(named, key=lambda word: place.get(word.kind, 1)) if word.english)


def _numbered(words: Sequence[Word], at: int) -> str:
    """Return `week 50`, `friday week 50 2026` or `the 5th`; empty for another unit than these."""
    unit, number = words[at - 1 : at + 1]
    if unit.english == "days":
        return f"the {ordinal_text(int(number.english))}" if at == 1 else ""
    others = (word.english for word in words if word.kind in {"weekday", "year"})
    return " ".join(("week", number.english, *others)) if unit in _WEEK_UNITS else ""


def _in_english(word: Word) -> str:
    if word.kind == "nextweek":
        return "next week"
    if word.kind != "date":
        return word.english
    day, month = word.english.split(".")
    return f"{int(day)} {MONTH_NAMES[int(month) - 1].lower()}"
