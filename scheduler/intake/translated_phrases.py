"""Time phrases in other languages, and the long tail of English: `demain à 9h`, `jutro o 9:00`.

`rules.time.times` parses a phrase first, and an everyday phrase in another language as its English twin
(`rules.time.languages`). All others go to the dateparser library, which guesses and skips words. Its result counts
only under three conditions. Every number and word of the phrase contributed to it, and all languages that know the
phrase agree. Neither the order of day and month nor a part of the date was guessed.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.time_of_day import DEFAULT_TIME
from duetime.scheduler.rules.time.times import NotUnderstood, Resolved
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame

_LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese",
    "nl": "Dutch", "sv": "Swedish", "da": "Danish", "nb": "Norwegian", "fi": "Finnish", "pl": "Polish", "cs": "Czech",
}  # fmt: skip
_FILLERS = frozenset({
    "a", "alle", "am", "at", "av", "año", "d", "da", "dans", "das", "de", "dei", "del", "della", "den", "der",
    "des", "di", "dia", "die", "do", "dos", "du", "día", "el", "em", "en", "fra", "gegen", "giorno", "h", "heures",
    "hodin", "hora", "horas", "i", "il", "in", "je", "kello", "kl", "klo", "klockan", "klokken", "koko", "la",
    "las", "le", "les", "los", "na", "nel", "o", "o'clock", "of", "om", "on", "ore", "p", "på", "r", "roku", "the",
    "til", "tra", "u", "uhr", "um", "uur", "v", "ve", "w", "za", "à", "às",
})  # fmt: skip
"""Words such as `at` and `in`, which may be missing without a change of meaning."""

_WORD = re.compile(r"[^\W\d_]+|[0-9]+")
_UNREADABLE = re.compile(
    r"[0-9],[0-9]|[0-9][.][0-9]{3}"  # 1,000 hours: a thousand or one?
    r"|\b[0-9]{1,2} +[0-9]{1,2}\b(?![.:h])"  # 5 5: which is the month, if any is?
    r"|^ve? [0-9]{1,2} ?(?:h|hodin)$"  # v 22 hodin: at 22, not in 22 hours
    r"|(?:^|\W|:[0-9]{2}|m)[-+] ?[0-9]"  # 9:00 +2: a time and its offset, or two hours later?
)
_UNKNOWN = re.compile(r"[^\w\s:.,'\u2019/°-]|(?![0-9])\d")
"""Characters that the library skips: symbols, and digits that are not 0 to 9."""

_AGO = re.compile(
    r"\b(ago|il y a|vor|geleden|hace|fa|há|atrás|sedan|siden|sitten|temu|před)\b|\bfor\b.*\bsiden\b", re.IGNORECASE
)
"""Words of the past, which the library skips next to one of the future; in German also `10 vor 9`."""

_CLOCK = re.compile(r"\b([0-9]{1,2}) ?(?:h|u|heures?|uur|horas?|ore|hodin)\b(?: ?([0-5][0-9])\b)?", re.IGNORECASE)
"""An hour of the clock, which the library takes for a length of time where a day stands before it."""

_FULL_HOUR = re.compile(r"\b([0-9]{1,2}) ?uhr\b(?! ?[0-9])")
_UHR = re.compile(r"\b([0-9]{1,2})(?: ?uhr ?|:)([0-5][0-9])(?: ?uhr)?\b")
"""The hour of the clock in German, which the library drops: `9 uhr`, `9 uhr 30`, `9:30 uhr`."""

_OFFSET = re.compile(
    r"(?P<count>[0-9]{1,4}) "
    r"(?P<unit>min\w*|hor\w*|heures?|stunden?|uur|ore|ora|timm?ar?|time[rn]?|tuntia?|godzin\w*|hodin\w*) "
    r"(?:(?P<before>avant|vor|voor|antes|prima|före|innan|før|ennen|przed|před)"
    r"|après|nach|na|después|dopo|depois|efter|etter|jälkeen|po)\b"
    r"[^\W\d]*(?: [^\W\d]+)* (?P<hour>[0-9]{1,2})(?:[:.h ](?P<minute>[0-5][0-9]))?"
    r" ?(?:h|heures?|uhr|uur|horas?|ore|hodin)?"
)
"""A length of time before or after an hour, in the languages of the library; it never reads one right."""

_BARE_HOUR = re.compile(r"(.*[^\W\d_])\.? ([0-9]{1,2})")
_AT = ("at", "um", "à", "a las", "alle", "às", "om", "kl", "o")  # words before an hour
_DAY_HOURS = 24
_NUMBER = re.compile(r"[0-9]+")
_MAX_WORDS_OF_LENGTH = 2
_MOVED = timedelta(days=1, minutes=37)
_PERIODS = {"day", "time"}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Found:
    """The library's result for a text: a wall time, and whether the text named a time of day."""

    wall: datetime
    timed: bool


@dataclass(frozen=True, slots=True)
class _Reader:
    """The library in one language, relative to a wall time."""

    language: str
    base: datetime
    order: str = "DMY"

    def read(self, text: str) -> _Found | None:
        try:
            found = _parser(self.language, self.base, self.order).get_date_data(text)
        except Exception:  # noqa: BLE001 - the library fails in many ways on unknown texts
            return None
        if found is None or found.date_obj is None or found.period not in _PERIODS:
            return None
        return _Found(found.date_obj.replace(tzinfo=None), found.period == "time")


def translate(
    text: str, *, now: datetime, zone: str | None, argument: str = "when", frame: Frame = NEW_TASK
) -> Resolved:
    """Return the instant of `text`, as `times.resolve` does, extended by the long tail of phrases.

    A result of the library carries an assumption that says how the text was read. Raises `InvalidArgument`.
    """
    try:
        return times.resolve(text, now=now, zone=zone, argument=argument, frame=frame)
    except NotUnderstood as unknown:
        found = _everyday(text, now=now, zone=zone, argument=argument, frame=frame)
        if found is None and zone and _readable(text):
            found = _long_tail(text, now, zone, frame)
        if found is None:
            timed = _with_at(text, now=now, zone=zone, argument=argument, frame=frame)
            problem = f"{unknown.problem}: the hour needs its word" if timed else unknown.problem
            example = timed or _in_english(text) or unknown.example
            raise NotUnderstood(argument, problem, accepted=unknown.accepted, example=example) from None
        return found


def load_languages() -> None:
    """Load the library with its languages: else the first phrase that is not understood waits for them."""
    with suppress(InvalidArgument):
        translate("no phrase of any language", now=datetime.now(UTC), zone="UTC")


def _everyday(text: str, *, now: datetime, zone: str | None, argument: str, frame: Frame) -> Resolved | None:
    """Return what the same says in English, None for a phrase that has no twin. Raises InvalidArgument like that."""
    found = translation.twins(text)
    if len(found) > 1:
        raise InvalidArgument(argument, f"{text.strip()!r} can mean two things", example=" or ".join(found))
    for english, language in found.items():
        with suppress(NotUnderstood):
            resolved = times.resolve(english, now=now, zone=zone, argument=argument, frame=frame)
            return replace(resolved, assumptions=(*_reading(language, resolved), *resolved.assumptions))
    return None


def _with_at(text: str, **given: Any) -> str:
    """Return `tomorrow 9` as `tomorrow at 9`, in its own language; empty where that is no time."""
    found = _BARE_HOUR.fullmatch(text.strip())
    for said in [f"{found[1]} {word} {found[2]}" for word in _AT] if found else ():
        for read in (times.resolve, _everyday):
            with suppress(InvalidArgument):
                if read(said, **given):
                    return said
    return ""


def _in_english(text: str) -> str:
    """Return `10 Minuten vor 15 Uhr` as it can be said in English, empty for any other text."""
    found = _OFFSET.fullmatch(text.strip().lower())
    if found is None or int(found["hour"]) >= _DAY_HOURS:
        return ""
    unit = "minutes" if found["unit"].startswith("min") else "hours"
    direction = "before" if found["before"] else "after"
    return f"{found['count']} {unit} {direction} {int(found['hour']):02}:{found['minute'] or '00'}"


def _readable(text: str) -> bool:
    """Whether a text may be put before the library, which has its own idea of what `JST` and `GMT+1` are."""
    if len(text) > translation.MAX_TRANSLATED_CHARS or any(bad.search(text) for bad in (_UNREADABLE, _UNKNOWN, _AGO)):
        return False
    _, zone = _zone_parser().pop_tz_offset_from_string(text, as_offset=False)
    return zone is None


def _long_tail(text: str, now: datetime, zone: str, frame: Frame) -> Resolved | None:
    place = zones.find(zone)
    base = now.astimezone(place).replace(tzinfo=None)
    with _LOCK, warnings.catch_warnings():  # the library warns about its own use of strptime
        warnings.simplefilter("ignore")
        read = _agreed(_UHR.sub(r"\1:\2", _FULL_HOUR.sub(r"\1:00", text.strip().lower())), base)
        if read is None:
            return None
        reader, phrase = read
    try:
        resolved = times.resolve(phrase, now=now, zone=zone, frame=frame)
    except InvalidArgument:  # in the past or far away: more likely misread than intended
        return None
    return replace(resolved, assumptions=(*_reading(_LANGUAGES[reader.language], resolved), *resolved.assumptions))


def _agreed(text: str, base: datetime) -> tuple[_Reader, str] | None:
    """Return what all languages that know the text agree on, with the phrase of our own that says so."""
    read = list(_readings(text, base))
    if len({found for _, found in read}) != 1 or not all(_whole(text, reader, found) for reader, found in read):
        return None
    phrases = {_as_phrase(text, reader, found) for reader, found in read}
    if phrases == {None}:
        as_clock = _CLOCK.sub(lambda hour: f"{hour[1]}:{hour[2] or '00'}", text)
        return _agreed(as_clock, base) if as_clock != text else None
    phrase = phrases.pop()
    return None if phrases or phrase is None else (read[0][0], phrase)


def _as_phrase(text: str, reader: _Reader, found: _Found) -> str | None:
    """Say a reading in a form of our own: a length of time from now, else a date.

    A text is a length of time when its numbers alone make it up. A phrase that moves with the call for another reason
    names a day, so its hours are those of a clock. The library took them for a length: that is None.
    """
    again = replace(reader, base=reader.base + _MOVED).read(text)
    counted = _counted(text, reader, found)
    if not found.timed:
        days = found.wall.date() - reader.base.date()
        moves = again is not None and again.wall.date() - (reader.base + _MOVED).date() == days
        return f"P{days.days}D" if moves and counted == days else f"{found.wall:%Y-%m-%d}"
    ahead = found.wall - reader.base
    if again is None or again.wall != found.wall + _MOVED:
        return f"{found.wall:%Y-%m-%dT%H:%M:%S}"
    return f"PT{round(ahead.total_seconds())}S" if counted == ahead else None


def _counted(text: str, reader: _Reader, found: _Found) -> timedelta | None:
    """Return the length that the numbers of a text make up: each times what one more of it adds."""
    total = timedelta()
    for number in _NUMBER.finditer(text):
        more = reader.read(f"{text[: number.start()]}{int(number[0]) + 1}{text[number.end() :]}")
        if more is None:
            return None
        total += int(number[0]) * (more.wall - found.wall if found.timed else more.wall.date() - found.wall.date())
    words = [word[0] for word in _WORD.finditer(text) if word[0] not in _FILLERS]
    if not total and found.timed and len(words) <= _MAX_WORDS_OF_LENGTH:  # `einer Stunde`
        return found.wall - reader.base
    return total


def _readings(text: str, base: datetime) -> Iterator[tuple[_Reader, _Found]]:
    for language in _LANGUAGES:
        reader = _Reader(language, base)
        found = reader.read(text)
        if found is not None:
            yield reader, found if found.timed else replace(found, wall=datetime.combine(found.wall, DEFAULT_TIME))


def _reading(language: str, resolved: Resolved) -> tuple[str, ...]:
    return (f"read as {language}: {times.describe(resolved.instant, resolved.zone)}",)


def _whole(text: str, reader: _Reader, found: _Found) -> bool:
    """Whether every part of a text contributed to the result, and nothing was guessed."""
    lowered = text.strip().lower()
    same = partial(_same, found=found)
    if not same(replace(reader, order="MDY"), lowered):
        return False
    return not any(same(reader, changed) for changed in _changes(lowered))


def _same(reader: _Reader, text: str, found: _Found) -> bool:
    again = reader.read(text)
    return again is not None and again.timed == found.timed and _alike(again, found)


def _alike(again: _Found, found: _Found) -> bool:
    return again.wall == found.wall if found.timed else again.wall.date() == found.wall.date()


def _changes(text: str) -> Iterator[str]:
    """Yield the text with each number raised by one, and with each meaningful word left out."""
    for word in _WORD.finditer(text):
        before, after = text[: word.start()], text[word.end() :]
        if word[0].isdecimal():
            yield f"{before}{int(word[0]) + 1:0{len(word[0])}}{after}"
        elif word[0] not in _FILLERS:
            yield f"{before} {after}"


def _parser(language: str, base: datetime, order: str) -> Any:
    settings = {
        "TIMEZONE": "UTC",
        "RELATIVE_BASE": base,
        "DATE_ORDER": order,
        "PREFER_DATES_FROM": "future",
        "RETURN_AS_TIMEZONE_AWARE": False,
        "RETURN_TIME_AS_PERIOD": True,
        "REQUIRE_PARTS": ["day", "month"],
    }
    return _library()(languages=[language], settings=settings, try_previous_locales=False)


@cache
def _zone_parser() -> Any:
    return importlib.import_module("dateparser.timezone_parser")


@cache
def _library() -> Any:
    """Import the library on first use, because it loads slowly."""
    return importlib.import_module("dateparser.date").DateDataParser
