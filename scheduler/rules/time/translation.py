"""Everyday times and recurrences in other languages, as the same in English: `morgen um 9` is `tomorrow at 9`.

Every reader of words (times, recurrences, bounds of filters) asks here for what it does not know. Each word stands for
one of English, so a phrase means what its English twin means. A phrase with a word that is not in the tables, or in an
order that is not here, has no twin.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from duetime.scheduler.rules.time.everyday_words import EVERYDAY, EverydayWords
from duetime.scheduler.rules.time.recurrence_words import EVERYDAY_RULES, EverydayRules
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES, Misread, ordinal_text

MAX_TRANSLATED_CHARS: Final = 60
"""Longer phrases are in English, or in nothing that is read."""

_LETTERS: Final[Mapping[str, str]] = {  # German examples, English ones in brackets
    "into": "i",  # `in` zwei Stunden
    "ago": "b",  # `vor` zwei Stunden
    "at": "a",  # `um` neun
    "article": "f",  # `am` Montag
    "next": "x",  # `nächsten` Montag
    "every": "e",  # `jeden` Montag
    "and": "s",  # montags `und` freitags
    "monthly": "g",  # am 3. `jedes Monats`
    "day": "d",  # `morgen` (tomorrow)
    "weekday": "w",  # `Montag`
    "weekdays": "v",  # `montags` (every Monday)
    "month": "m",  # `Januar`
    "part": "p",  # `nachmittag` (afternoon)
    "time": "t",  # `mittag` (noon)
    "rule": "r",  # `täglich` (every day)
    "length": "l",  # `einer halben Stunde` (30 minutes)
    "idiom": "k",  # `acht Tagen` (8 days or 1 week)
    "unit": "u",  # 2 `Wochen`
    "hours": "h",  # 9 `h`, a unit that may stand in a time of day as well
    "oclock": "o",  # 9 `Uhr`
    "clock": "c",  # `9:30`
    "number": "n",  # `9`, `neun`
    "ordinal": "q",  # `3.`
    "year": "y",  # `2026`
}
"""The kinds of words, each with the letter that stands for it where the order of a phrase is matched."""


def _order(kinds: str) -> re.Pattern[str]:
    """Compile an order of words: a regular expression over kinds, where spaces mean nothing."""
    letters = re.sub("(<[a-z_]+>)|[a-z]+", lambda found: found[1] or _LETTERS[found[0]], kinds)
    return re.compile(letters.replace(" ", ""))


_TIME: Final = "(?P<at> at)? (?P<clock> clock [oclock hours]? | number [oclock hours] number? | time | number)"
_DATE: Final = "(?:weekday article?)? [ordinal number] article? month article? year?"
_DAY: Final = f"article? (?P<day> day | next? weekday next? | {_DATE})"
_EVERY: Final = (
    "(?P<rule> rule)"
    " | every (?P<count> number)? (?P<unit> [unit hours]) (?:article? (?P<on> weekday (?:and weekday)*))?"
    " | every? (?P<plural> weekdays (?:and every? weekdays)*)"
    " | every article? (?P<each> weekday (?:and article? weekday)*) | article? (?P<date> [ordinal number]) monthly"
)
_LENGTH: Final = "number [unit hours] | length"
_ORDERS: Final = tuple(
    map(
        _order,
        (
            "into (?P<idiom> idiom)",
            f"ago (?P<past> {_LENGTH}) | (?P<past_before> {_LENGTH}) ago",
            f"(?:{_EVERY}) (?P<part> part)? (?:{_TIME} (?P<part_behind> part)?)?",
            f"{_TIME} (?P<part> part)? (?:{_EVERY})",
            f"into (?P<length> {_LENGTH}) (?:{_TIME})?",
            f"{_DAY} (?P<part> part)? (?:{_TIME} (?P<part_behind> part)?)?",
            f"{_TIME} (?P<part> part)? (?:{_DAY} (?P<part_behind> part)?)?",
        ),
    )
)
"""An idiom, a length ago, a rule and a time in both orders, a length, a day and a time in both orders."""

_NUMERALS: Final = (
    ("clock", re.compile(r"(?<![0-9:.])([0-2]?[0-9]:[0-5][0-9])(?![0-9:])")),
    ("ordinal", re.compile(r"(?<![0-9.,:])([0-9]{1,2})(?:\.(?= )|er\b|o\b)")),
    ("year", re.compile(r"(?<![0-9.,:])([0-9]{4})(?![0-9:]|[.,][0-9])")),
    ("number", re.compile(r"(?<![0-9.,:])([0-9]{1,3})(?![0-9:]|[.,][0-9])")),
)

_SEPARATORS: Final = " ,"
_CALENDAR_UNITS: Final = ("day", "days", "week", "weeks", "month", "months")
_MINUTES: Final = re.compile("[0-5][0-9]")
_TO_MIDNIGHT: Final = frozenset({"today", "this evening", "tonight"})


class _Word(NamedTuple):
    """A word of a phrase: its kind, and its English."""

    kind: str
    english: str


_Lexicon = tuple[re.Pattern[str], Mapping[str, _Word]]
"""A pattern of the phrases of a language, the longest first, and the words that they stand for."""


def twins(text: str) -> Mapping[str, str]:
    """Return the English phrases of the same meaning, each with the language that it is read in.

    There are several where a phrase is ambiguous, and none where it is in none of the languages.
    """
    if len(text) > MAX_TRANSLATED_CHARS:
        return {}
    folded = _folded(text).rstrip(".!")
    found: dict[str, str] = {}
    for language, lexicon in _lexicons().items():
        words = _words(folded, lexicon)
        for english in _phrases(words):
            found.setdefault(english, language)
    return found


def twin(text: str) -> str | None:
    """Return the English phrase of the same meaning, None without one. Raises Misread where there are several."""
    found = tuple(twins(text))
    if len(found) > 1:
        raise Misread("can mean two things", *found)
    return found[0] if found else None


def _folded(text: str) -> str:
    """Return a text in small letters, without accents, with plain apostrophes and single spaces."""
    plain = unicodedata.normalize("NFKD", text.lower().replace("\u2019", "'"))
    return " ".join("".join(each for each in plain if not unicodedata.combining(each)).split())


@cache
def _lexicons() -> Mapping[str, _Lexicon]:
    return {language: _lexicon(words, EVERYDAY_RULES[language]) for language, words in EVERYDAY.items()}


def _lexicon(words: EverydayWords, recurrence: EverydayRules) -> _Lexicon:
    found = {_folded(phrase): word for phrase, word in (*_entries(words), *_recurrence_entries(recurrence))}
    longest_first = sorted(found, key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(map(re.escape, longest_first))})(?![^\W\d])"), found


def _entries(words: EverydayWords) -> Iterator[tuple[str, _Word]]:
    listed = (
        *(("into", words.into), ("ago", words.ago), ("at", words.at), ("article", words.articles)),
        *(("next", words.following), ("oclock", words.oclock)),
    )
    for kind, phrases in listed:
        english = "next" if kind == "next" else ""
        yield from ((phrase, _Word(kind, english)) for phrase in filter(None, phrases.split(", ")))
    numbers = tuple(str(number) for number in range(1, 13))
    for kind, names, phrases in (
        ("number", numbers, words.numbers),
        ("weekday", WEEKDAY_NAMES, words.weekdays),
        ("month", MONTH_NAMES, words.months),
    ):
        for meaning, each in zip(names, phrases.split(", "), strict=True):
            yield from ((phrase, _Word(kind, meaning.lower())) for phrase in each.split("/"))
    hours = {"hours": words.hours.replace(", ", "/")}
    tables = (("hours", hours), ("unit", words.units), ("day", words.days), ("part", words.parts))
    for kind, table in (*tables, ("time", words.times), ("length", words.lengths)):
        for meaning, each in table.items():
            yield from ((phrase, _Word(kind, meaning)) for phrase in each.split("/"))
    yield from ((phrase, _Word("idiom", " or ".join(meanings))) for phrase, meanings in words.idioms.items())


def _recurrence_entries(words: EverydayRules) -> Iterator[tuple[str, _Word]]:
    for kind, phrases in (("every", words.every), ("and", words.conjunction), ("monthly", words.monthly)):
        yield from ((phrase, _Word(kind, "")) for phrase in phrases.split("/"))
    for meaning, each in zip(WEEKDAY_NAMES, words.weekdays.split(", "), strict=True):
        yield from ((phrase, _Word("weekdays", meaning.lower())) for phrase in each.split("/"))
    for meaning, each in words.rules.items():
        yield from ((phrase, _Word("rule", meaning)) for phrase in each.split("/"))


def _words(text: str, lexicon: _Lexicon) -> tuple[_Word, ...]:
    """Return the words of a whole text, none where one is unknown."""
    found: list[_Word] = []
    at = 0
    while at < len(text):
        word, at = _word_at(text, at, lexicon)
        if word is None:
            return ()
        found.append(word)
    return tuple(found)


def _word_at(text: str, at: int, lexicon: _Lexicon) -> tuple[_Word | None, int]:
    """Return the word at a place, and where the next one begins."""
    phrase, known = lexicon
    for kind, pattern in (*_NUMERALS, ("", phrase)):
        if found := pattern.match(text, at):
            word = _Word(kind, found[1]) if kind else known[found[0]]
            return word, len(text) - len(text[found.end() :].lstrip(_SEPARATORS))
    return None, at


def _phrases(words: Sequence[_Word]) -> Iterator[str]:
    """Yield the English of these words: nothing for an order that is not known."""
    letters = "".join(_LETTERS[word.kind] for word in words)
    order = next((found for each in _ORDERS if (found := each.fullmatch(letters))), None)
    if order is None:
        return
    said = {name: words[slice(*order.span(name))] for name, match in order.groupdict().items() if match}
    if "idiom" in said:
        yield from said["idiom"][0].english.split(" or ")
    elif past := said.get("past") or said.get("past_before"):
        yield f"{_counted(past)} ago"
    elif "length" in said:
        yield from _length(said)
    elif rule := _rule(said):
        yield from _timed(rule, said)
    elif [word.kind for word in words] == ["number", "hours"]:  # `22 uur`
        yield from (f"at {words[0].english}:00", f"in {words[0].english} hours")
    else:
        yield from _day_and_time(said)


def _length(said: Mapping[str, Sequence[_Word]]) -> Iterator[str]:
    length = _counted(said["length"])
    if "clock" not in said:
        yield f"in {length}"
    elif length.endswith(_CALENDAR_UNITS) and (clock := _clock(said, named=True)):
        yield f"in {length} at {clock}"


def _counted(words: Sequence[_Word]) -> str:
    length = " ".join(word.english for word in words)
    return length.rstrip("s") if length.startswith("1 ") else length


def _rule(said: Mapping[str, Sequence[_Word]]) -> str:
    """Return a recurrence without its time of day, empty for what is none."""
    days = next((said[name] for name in ("each", "plural", "on") if name in said), ())
    named = " and ".join(word.english for word in days if word.english)
    if "rule" in said:
        return said["rule"][0].english
    if "unit" in said:
        count = said["count"][0].english if "count" in said else "1"
        every = _counted((_Word("number", count), said["unit"][0])).removeprefix("1 ")
        return f"every {every}{f' on {named}' if named else ''}"
    if "date" in said:
        return f"every month on the {ordinal_text(int(said['date'][0].english))}"
    return f"every {named}" if named else ""


def _timed(rule: str, said: Mapping[str, Sequence[_Word]]) -> Iterator[str]:
    parts = [said[name][0].english for name in ("part", "part_behind") if name in said]
    clock = _clock(said, named=True)
    if len(parts) > 1 or ("clock" in said and not clock):
        return
    yield f"{rule} at {_in_part(clock, parts)}" if clock else " ".join((rule, *parts))


def _day_and_time(said: Mapping[str, Sequence[_Word]]) -> Iterator[str]:
    day = _day(said.get("day", ()))
    parts = [said[name][0].english for name in ("part", "part_behind") if name in said]
    clock = _clock(said, named=bool(day or parts))
    if len(parts) > 1 or ("clock" in said and not clock):
        return
    if clock == "midnight" and day in _TO_MIDNIGHT:
        yield "tonight at midnight"
    elif day:
        yield " ".join((day, *parts, *((f"at {clock}",) if clock else ())))
    elif clock:
        yield f"at {_in_part(clock, parts)}"


def _in_part(clock: str, parts: Sequence[str]) -> str:
    return " ".join((clock, *("at night" if part == "night" else f"in the {part}" for part in parts)))


def _day(words: Sequence[_Word]) -> str:
    named = [word for word in words if word.english]
    return " ".join(word.english for word in sorted(named, key=lambda word: word.kind != "next"))


def _clock(said: Mapping[str, Sequence[_Word]], *, named: bool) -> str:
    """Return a time of day in English, empty for what may be a length of time: `9h` without a day or an `at`."""
    hour, *rest = said.get("clock") or [_Word("", "")]
    if hour.kind != "number":
        return hour.english
    at = "at" in said
    unit, minutes = (word.english for word in (*rest, _Word("", ""), _Word("", ""))[:2])
    if not rest:
        return hour.english if at else ""
    if (minutes and not _MINUTES.fullmatch(minutes)) or (unit and not at and not named):
        return ""
    return f"{hour.english}:{minutes or '00'}"
