"""More than 300 phrases in twelve languages: each is read right or refused, never wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.rules.time import zones

HOME = zones.load("Europe/Paris")
NOW = datetime(2026, 11, 21, 14, 20, tzinfo=HOME)
"""A Saturday."""
MINUTES, HOURS, DAYS, WEEKS = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)
LENGTHS = ((30, MINUTES), (3, HOURS), (3, DAYS), (2, WEEKS))


@dataclass(frozen=True)
class Words:
    """Phrases of one language; `{h}` is an hour, `{n}` a number, and `clocks` come after the name of a day."""

    tomorrow: str
    clocks: tuple[str, ...]
    ahead: str
    units: tuple[str, str, str, str]
    weekdays: tuple[str, ...]
    ranges: tuple[str, ...]
    ago: str


LANGUAGES = {
    "en": Words(
        "tomorrow",
        ("at {h}:00", "{h}h", "at {h}h", "{h} hours", "at {h} o'clock"),
        "in {n} {unit}",
        ("minutes", "hours", "days", "weeks"),
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        ("tomorrow 9-11", "tomorrow from 9 to 11"),
        "3 hours ago",
    ),
    "fr": Words(
        "demain",
        ("à {h}:00", "à {h}h", "à {h} heures", "{h} heures", "{h}h"),
        "dans {n} {unit}",
        ("minutes", "heures", "jours", "semaines"),
        ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
        ("demain de 9h à 11h", "demain entre 9 et 11 heures"),
        "il y a 3 heures",
    ),
    "de": Words(
        "morgen",
        ("um {h}:00", "um {h} Uhr", "{h} Uhr", "um {h}h", "{h} Stunden"),
        "in {n} {unit}",
        ("Minuten", "Stunden", "Tagen", "Wochen"),
        ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
        ("morgen von 9 bis 11 Uhr", "morgen 9-11 Uhr"),
        "vor 3 Stunden",
    ),
    "nl": Words(
        "morgen",
        ("om {h}:00", "om {h} uur", "{h} uur", "om {h}u", "{h}h"),
        "over {n} {unit}",
        ("minuten", "uur", "dagen", "weken"),
        ("maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag"),
        ("morgen van 9 tot 11 uur", "morgen tussen 9 en 11 uur"),
        "3 uur geleden",
    ),
    "es": Words(
        "mañana",
        ("a las {h}:00", "a las {h}h", "a las {h} horas", "{h} horas", "a las {h}"),
        "en {n} {unit}",
        ("minutos", "horas", "días", "semanas"),
        ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
        ("mañana de 9 a 11 horas", "mañana entre las 9h y las 11h"),
        "hace 3 horas",
    ),
    "it": Words(
        "domani",
        ("alle {h}:00", "alle {h}h", "alle ore {h}", "{h} ore", "alle {h}"),
        "tra {n} {unit}",
        ("minuti", "ore", "giorni", "settimane"),
        ("lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"),
        ("domani dalle 9 alle 11", "domani tra le 9 e le 11 ore"),
        "3 ore fa",
    ),
    "pt": Words(
        "amanhã",
        ("às {h}:00", "às {h}h", "às {h} horas", "{h} horas", "{h}h"),
        "em {n} {unit}",
        ("minutos", "horas", "dias", "semanas"),
        ("segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado", "domingo"),
        ("amanhã das 9h às 11h", "amanhã entre 9 e 11 horas"),
        "há 3 horas",
    ),
    "sv": Words(
        "imorgon",
        ("kl {h}:00", "klockan {h}", "{h} timmar", "kl {h}", "{h}h"),
        "om {n} {unit}",
        ("minuter", "timmar", "dagar", "veckor"),
        ("måndag", "tisdag", "onsdag", "torsdag", "fredag", "lördag", "söndag"),
        ("imorgon kl 9-11", "imorgon mellan 9 och 11"),
        "3 timmar sedan",
    ),
    "da": Words(
        "i morgen",
        ("kl. {h}:00", "klokken {h}", "{h} timer", "kl {h}", "{h}h"),
        "om {n} {unit}",
        ("minutter", "timer", "dage", "uger"),
        ("mandag", "tirsdag", "onsdag", "torsdag", "fredag", "lørdag", "søndag"),
        ("i morgen kl 9-11", "i morgen mellem 9 og 11"),
        "3 timer siden",
    ),
    "fi": Words(
        "huomenna",
        ("klo {h}:00", "kello {h}", "{h} tuntia", "klo {h}", "{h}h"),
        "{n} {unit} kuluttua",
        ("minuutin", "tunnin", "päivän", "viikon"),
        ("maanantai", "tiistai", "keskiviikko", "torstai", "perjantai", "lauantai", "sunnuntai"),
        ("huomenna klo 9-11", "huomenna 9 ja 11 tuntia"),
        "3 tuntia sitten",
    ),
    "pl": Words(
        "jutro",
        ("o {h}:00", "o godzinie {h}", "{h} godzin", "o {h}", "{h}h"),
        "za {n} {unit}",
        ("minut", "godziny", "dni", "tygodnie"),
        ("poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela"),
        ("jutro od 9 do 11", "jutro między 9 a 11 godzin"),
        "3 godziny temu",
    ),
    "cs": Words(
        "zítra",
        ("v {h}:00", "v {h} hodin", "{h} hodin", "v {h}h", "v {h}"),
        "za {n} {unit}",
        ("minut", "hodiny", "dny", "týdny"),
        ("pondělí", "úterý", "středa", "čtvrtek", "pátek", "sobota", "neděle"),
        ("zítra od 9 do 11 hodin", "zítra mezi 9 a 11 hodin"),
        "před 3 hodinami",
    ),
}


def phrases(words: Words) -> Iterator[tuple[str, datetime | None]]:
    """Yield each phrase with the time that it means; None for one that only a refusal answers."""
    for clock in words.clocks:
        for hour in (9, 15):
            yield f"{words.tomorrow} {clock.format(h=hour)}", datetime(2026, 11, 22, hour, tzinfo=HOME)
    for (count, unit), name in zip(LENGTHS, words.units, strict=True):
        yield words.ahead.format(n=count, unit=name), NOW + count * unit
    for ahead, name in enumerate(words.weekdays, start=2):
        day = datetime(2026, 11, 21, 9, tzinfo=HOME) + timedelta(days=ahead if ahead != 7 else 7)
        yield f"{name} {words.clocks[0].format(h=9)}", day if ahead < 8 else day - WEEKS
        yield f"{name} {words.clocks[1].format(h=9)}", day if ahead < 8 else day - WEEKS
    for text in (*words.ranges, words.ago, f"{words.tomorrow} {words.tomorrow} {words.ago}"):
        yield text, None
    yield f"{words.ahead.format(n=45, unit=words.units[0])} ٣", None
    yield f"{words.tomorrow} {words.clocks[0].format(h=9)} xyzzy", None
    yield f"{words.ago} {words.ahead.format(n=3, unit=words.units[1])}", None


ALL = [(language, *phrase) for language, words in LANGUAGES.items() for phrase in phrases(words)]


WEEK_AFTER, CHRISTMAS_EVE = datetime(2026, 12, 4, 9, tzinfo=HOME), datetime(2026, 12, 24, 9, tzinfo=HOME)
BEFORE, AFTER = datetime(2026, 11, 21, 14, 50, tzinfo=HOME), datetime(2026, 11, 21, 15, 10, tzinfo=HOME)
BOUNDED = {
    BEFORE: (
        "10 minutes before 15:00", "10 minutes avant 15h", "10 Minuten vor 15 Uhr", "10 minuten voor 15 uur",
        "10 minutos antes de las 15h", "10 minuti prima delle 15:00", "10 minutos antes das 15h",
        "10 minuter före kl 15",
        "10 minutter før kl. 15:00", "10 minuuttia ennen klo 15", "10 minut przed 15:00", "10 minut před 15:00",
    ),
    AFTER: (
        "10 minutes after 15:00", "10 minutes après 15h", "10 Minuten nach 15 Uhr", "10 minuten na 15 uur",
        "10 minutos después de las 15h", "10 minuti dopo le 15:00", "10 minutos depois das 15h",
        "10 minuter efter kl 15",
        "10 minutter efter kl. 15:00", "10 minuuttia klo 15 jälkeen", "10 minut po 15:00",
    ),
    WEEK_AFTER: (
        "a week from friday", "une semaine après vendredi", "eine Woche nach Freitag", "een week na vrijdag",
        "una semana después del viernes", "una settimana dopo venerdì", "uma semana depois de sexta-feira",
        "en vecka efter fredag", "en uge efter fredag", "viikko perjantain jälkeen", "tydzień po piątku",
        "týden po pátku",
    ),
    CHRISTMAS_EVE: (
        "the day before christmas", "le jour avant noël", "der Tag vor Weihnachten", "de dag voor kerst",
        "el día antes de navidad", "il giorno prima di natale", "o dia antes do natal", "dagen före jul",
        "dagen før jul", "päivä ennen joulua", "dzień przed bożym narodzeniem", "den před vánoci",
    ),
    None: (
        "after lunch", "demain après le déjeuner", "morgen nach dem Mittagessen", "morgen na de lunch",
        "mañana después de comer", "domani dopo pranzo", "amanhã depois do almoço", "imorgon efter lunch",
        "i morgen efter frokost", "huomenna lounaan jälkeen", "jutro po obiedzie", "zítra po obědě",
        "until june", "jusqu'en juin", "bis Juni", "tot juni", "hasta junio", "fino a giugno", "até junho",
        "till juni", "indtil juni", "kesäkuuhun", "do czerwca", "do června",
        "every second tuesday", "un mardi sur deux", "jeden zweiten Dienstag", "cada segundo martes", "twice a day",
    ),
}  # fmt: skip
"""Words before or after something, or at its end."""


def read(text: str) -> datetime | None:
    try:
        return translate(text, now=NOW.astimezone(UTC), zone=HOME.key).instant
    except InvalidArgument:
        return None


def test_there_are_more_than_300_in_12_languages() -> None:
    assert (len(ALL) > 300, len(LANGUAGES)) == (True, 12)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phrase_is_read_right_or_refused_never_wrong(language: str) -> None:
    found = {text: (read(text), meant) for of, text, meant in ALL if of == language}
    wrong = {text: f"{got}, not {meant}" for text, (got, meant) in found.items() if got not in (None, meant)}
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    ["demain à 9 heures", "morgen om 9 uur", "amanhã às 9h", "mañana a las 9h", "domani alle 9h", "zítra v 9 hodin"],
)
def test_an_hour_after_a_day_is_one_of_the_clock(text: str) -> None:
    assert read(text) == datetime(2026, 11, 22, 9, tzinfo=HOME)


@pytest.mark.parametrize("meant", BOUNDED, ids=str)
def test_a_time_before_or_after_another_is_read_right_or_refused(meant: datetime | None) -> None:
    found = {text: read(text) for text in BOUNDED[meant]}
    assert {text: got for text, got in found.items() if got not in (None, meant)} == {}
    assert meant is None or found[BOUNDED[meant][0]] == meant


def test_at_least_a_hundred_are_understood() -> None:
    assert sum(meant is not None and read(text) == meant for _, text, meant in ALL) >= 100
