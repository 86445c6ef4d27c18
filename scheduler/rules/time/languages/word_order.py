"""Orders of words: regular expressions over the kinds of words, which match the words of a whole phrase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from duetime.scheduler.rules.time.languages.lexicon import Word

_LETTERS: Final[Mapping[str, str]] = {  # German examples, English ones in brackets
    "into": "i",  # `in` zwei Stunden
    "within": "W",  # `innerhalb von` zwei Stunden
    "limit": "L",  # Italian `entro` (within an hour, by friday)
    "ago": "b",  # `vor` zwei Stunden
    "by": "B",  # `bis` Freitag
    "before": "C",  # French `avant` vendredi
    "at": "a",  # `um` neun
    "article": "f",  # `am` Montag
    "next": "x",  # `nächsten` Montag
    "nextweek": "X",  # Dienstag `nächster Woche`
    "later": "R",  # French lundi `en huit` (a week from monday)
    "every": "e",  # `jeden` Montag
    "and": "s",  # montags `und` freitags
    "except": "P",  # `außer` sonntags
    "holidays": "H",  # `feiertags`
    "monthly": "g",  # am 3. `jedes Monats`
    "ofmonth": "G",  # am letzten Tag `des Monats`
    "alternate": "A",  # French un mardi `sur deux`
    "day": "d",  # `morgen` (tomorrow)
    "between": "S",  # `zwischen` 9 und 11
    "from": "I",  # `von` 9 bis 11
    "to": "U",  # Spanish de 9 `a` 11
    "weeknumber": "K",  # `KW` 50
    "afterwards": "F",  # 2 Stunden `danach`
    "late": "T",  # `heute Nacht`
    "weekday": "w",  # `Montag`
    "weekdays": "v",  # `montags` (every Monday)
    "month": "m",  # `Januar`
    "edge": "E",  # `Ende` Januar
    "part": "p",  # `nachmittag` (afternoon)
    "habit": "z",  # `abends` (in the evening, every evening)
    "time": "t",  # `mittag` (noon)
    "beforehour": "j",  # `halb` neun
    "afterhour": "J",  # French neuf heures `et demie`
    "rule": "r",  # `täglich` (every day)
    "length": "l",  # `einer halben Stunde` (30 minutes)
    "idiom": "k",  # `acht Tagen` (8 days or 1 week)
    "unit": "u",  # 2 `Wochen`
    "hours": "h",  # 9 `h`, a unit that may stand in a time of day as well
    "oclock": "o",  # 9 `Uhr`
    "clock": "c",  # `9:30`
    "dotted": "M",  # um `9.30`
    "date": "D",  # `24.12.`
    "number": "n",  # `9`, `neun`
    "ordinal": "q",  # `3.`
    "nth": "N",  # `ersten`
    "year": "y",  # `2026`
}
"""The kinds of words, each with the letter that stands for it where the order of a phrase is matched."""

HOUR_ORDER: Final = (
    "[clock dotted] [oclock hours]? | beforehour number [oclock hours]? | number [oclock hours]? afterhour"
    " | number [oclock hours] number? | time afterhour? | number"
)
TIME_ORDER: Final = f"(?P<at> at)? (?P<clock> {HOUR_ORDER})"
WINDOW_ORDER: Final = (
    f"[from article between]? [at by]? article? (?P<first> {HOUR_ORDER})"
    f" [to and by at] article? [at by]? (?P<last> {HOUR_ORDER})"
)
PART_ORDER: Final = "(?P<part> [part habit])?"
LENGTH_ORDER: Final = "number [unit hours] afterhour? | number hours number | length"


def order(kinds: str) -> re.Pattern[str]:
    """Compile an order of words: a regular expression over kinds, where spaces mean nothing."""
    letters = re.sub("(<[a-z_]+>)|[a-z]+", lambda found: found[1] or _LETTERS[found[0]], kinds)
    return re.compile(letters.replace(" ", ""))


def first_match(orders: Iterable[re.Pattern[str]], words: Sequence[Word]) -> Mapping[str, Sequence[Word]]:
    """Return the named parts of the first order that all words are in, none where there is no such order."""
    letters = "".join(_LETTERS[word.kind] for word in words)
    found = next((match for each in orders if (match := each.fullmatch(letters))), None)
    if found is None:
        return {}
    return {name: words[slice(*found.span(name))] for name, match in found.groupdict().items() if match}
