"""The words of a phrase in one language: their kinds, and the English that they stand for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from duetime.scheduler.rules.time.languages.dutch import DUTCH
from duetime.scheduler.rules.time.languages.french import FRENCH
from duetime.scheduler.rules.time.languages.german import GERMAN
from duetime.scheduler.rules.time.languages.italian import ITALIAN
from duetime.scheduler.rules.time.languages.language import Language
from duetime.scheduler.rules.time.languages.portuguese import PORTUGUESE
from duetime.scheduler.rules.time.languages.spanish import SPANISH
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, ORDINAL_INDEX, WEEKDAY_NAMES

_LANGUAGES: Final[Mapping[str, Language]] = {
    "German": GERMAN,
    "French": FRENCH,
    "Spanish": SPANISH,
    "Italian": ITALIAN,
    "Portuguese": PORTUGUESE,
    "Dutch": DUTCH,
}
_NUMERALS: Final = (
    ("clock", re.compile(r"(?<![0-9:.])([0-2]?[0-9]:[0-5][0-9])(?![0-9:])")),
    ("date", re.compile(r"(?<![0-9.,:])((?:[0-2]?[0-9]|3[01])\.(?:0?[1-9]|1[0-2]))\.(?![0-9])")),
    ("dotted", re.compile(r"(?<![0-9:.])((?:[01]?[0-9]|2[0-3])\.[0-5][0-9])(?![0-9:.])")),
    ("ordinal", re.compile(r"(?<![0-9.,:])([0-9]{1,2})(?:\.(?= )|er\b|o\b|e\b)")),
    ("year", re.compile(r"(?<![0-9.,:])([0-9]{4})(?![0-9:]|[.,][0-9])")),
    ("number", re.compile(r"(?<![0-9.,:])([0-9]{1,3})(?![0-9:]|[.,][0-9])")),
)
_WEEK_NUMBER: Final = r"(?= ?[0-9]{1,2}(?![0-9:.h]| h))"
"""No hour follows: `en semaine 9h` is a time of every weekday."""

_NO_WEEKS: Final = re.compile(r"(?!)()")
_SEPARATORS: Final = " ,"
_END_OF_SENTENCE: Final = re.compile(r"(?<!\.[0-9])(?<!\.[0-9]{2})[.!]+$")
"""The point behind `9.12.` belongs to the date."""

MINUTES_ADDED: Final = "minutes"
"""The English of an `and` that may stand before the minutes of an hour; that of another one is empty."""

AT: Final = "at"
"""The English of a `before` that may stand before a bare hour, as `at` may; that of another one is empty."""

_ORDINAL_WORDS: Final = tuple(ORDINAL_INDEX)
_MAX_NUMBER_VALUE: Final = 20


class Word(NamedTuple):
    """A word of a phrase: its kind, and its English."""

    kind: str
    english: str


class _Lexicon(NamedTuple):
    """Patterns of the phrases of a language, the longest first, and the words that they stand for.

    The `weeks` stand before a number alone: French `en semaine` is every weekday, and `en semaine 50` is a week.
    """

    phrases: re.Pattern[str]
    weeks: re.Pattern[str]
    words: Mapping[str, Word]


def words_of(text: str) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Yield each language that knows all words of a text, with these words."""
    folded = _END_OF_SENTENCE.sub("", _folded(text))
    for language, lexicon in _lexicons().items():
        if words := _words(folded, lexicon):
            yield language, words


def _folded(text: str) -> str:
    """Return a text in small letters, without accents, with plain apostrophes and single spaces."""
    plain = unicodedata.normalize("NFKD", text.lower().replace("\u2019", "'"))
    return " ".join("".join(each for each in plain if not unicodedata.combining(each)).split())


@cache
def _lexicons() -> Mapping[str, _Lexicon]:
    return {name: _lexicon(language) for name, language in _LANGUAGES.items()}


def _lexicon(language: Language) -> _Lexicon:
    entries = (*_listed(language), *_in_order(language), *_tables(language), *_compounds(language))
    found = {_folded(phrase): word for phrase, word in entries if phrase}
    weeks = map(_folded, filter(None, language.calendar_week.split("/")))
    return _Lexicon(
        re.compile(rf"{_longest_first(found)}(?![^\W\d])"),
        re.compile(rf"{_longest_first(weeks)}(){_WEEK_NUMBER}") if language.calendar_week else _NO_WEEKS,
        found,
    )


def _longest_first(phrases: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(phrases, key=len, reverse=True)))})"


def _listed(words: Language) -> Iterator[tuple[str, Word]]:
    """Yield the words whose English is their kind."""
    kinds = {
        "into": words.into,
        "ago": words.ago,
        "at": words.at,
        "article": words.articles,
        "oclock": words.oclock,
        "by": words.by,
        "before": words.before,
        "within": words.within,
        "except": words.exceptions,
    }
    for kind, phrases in kinds.items():
        yield from ((phrase, Word(kind, "")) for phrase in phrases.split(", "))
    if words.ago in words.before.split(", "):
        yield words.ago, Word("ago", "before")
    yield from ((phrase, Word("before", AT)) for phrase in words.before_clock.split(", "))
    yield from ((phrase, Word("next", "next")) for phrase in words.following.split(", "))
    forms = {
        "every": words.every,
        "monthly": words.monthly,
        "ofmonth": words.of_month,
        "late": words.late,
        "nextweek": words.next_week,
        "holidays": words.holidays,
        "alternate": words.alternate,
        "between": words.between,
        "from": words.window_from,
        "to": f"{words.window_to}/-/\u2013",
    }
    for kind, phrases in forms.items():
        yield from ((phrase, Word(kind, "")) for phrase in phrases.split("/"))
    yield from ((phrase, Word("and", MINUTES_ADDED * words.adds_minutes)) for phrase in words.conjunction.split("/"))


def _in_order(words: Language) -> Iterator[tuple[str, Word]]:
    """Yield the words that stand in the order of the English ones."""
    numbers = tuple(str(number) for number in range(1, _MAX_NUMBER_VALUE + 1))
    for kind, names, phrases in (
        ("number", numbers, words.numbers),
        ("weekday", WEEKDAY_NAMES, words.weekdays),
        ("weekdays", WEEKDAY_NAMES, words.plural_weekdays),
        ("month", MONTH_NAMES, words.months),
        ("nth", tuple(name for name in _ORDINAL_WORDS if name != "fifth"), words.ordinals),
    ):
        for meaning, each in zip(names, phrases.split(", "), strict=True):
            yield from ((phrase, Word(kind, meaning.lower())) for phrase in each.split("/"))


def _tables(words: Language) -> Iterator[tuple[str, Word]]:
    hours = {"hours": words.hours.replace(", ", "/")}
    tables: tuple[tuple[str, Mapping[str, str]], ...] = (
        *(("number", words.more_numbers), ("hours", hours), ("unit", words.units), ("day", words.days)),
        *(
            ("part", words.parts),
            ("habit", words.habits),
            ("time", words.times),
            ("time", words.occasions),
            ("length", words.lengths),
        ),
        *(("beforehour", words.before_hour), ("afterhour", words.after_hour), ("edge", words.edges)),
        *(("limit", words.limit), ("later", words.later), ("afterwards", words.afterwards), ("rule", words.rules)),
    )
    for kind, table in tables:
        for meaning, each in table.items():
            yield from ((phrase, Word(kind, meaning)) for phrase in each.split("/"))
    yield from ((phrase, Word("idiom", " or ".join(meanings))) for phrase, meanings in words.idioms.items())


def _compounds(words: Language) -> Iterator[tuple[str, Word]]:
    """Yield weekdays with a part of the day in one word, `samstagabend`, or said twice: `terça sim, terça não`."""
    for weekday, each in zip(WEEKDAY_NAMES, words.weekdays.split(", "), strict=True):
        for part, ends in words.compounds.items():
            word = Word("weekday", f"{weekday.lower()} {part}")
            yield from ((name + end, word) for name in each.split("/") for end in ends.split("/"))
        other = Word("rule", f"every other {weekday.lower()}")
        yield from (
            (form.format(name, name), other) for name in each.split("/") for form in words.every_other.split("/")
        )


def _words(text: str, lexicon: _Lexicon) -> tuple[Word, ...]:
    """Return the words of a whole text, none where one is unknown."""
    found: list[Word] = []
    at = 0
    while at < len(text):
        word, at = _word_at(text, at, lexicon)
        if word is None:
            return ()
        found.append(word)
    return tuple(found)


def _word_at(text: str, at: int, lexicon: _Lexicon) -> tuple[Word | None, int]:
    """Return the word at a place, and where the next one begins; phrases go before numerals."""
    for kind, pattern in (("weeknumber", lexicon.weeks), ("", lexicon.phrases), *_NUMERALS):
        if found := pattern.match(text, at):
            word = Word(kind, found[1]) if kind else lexicon.words[found[0]]
            return word, len(text) - len(text[found.end() :].lstrip(_SEPARATORS))
    return None, at
