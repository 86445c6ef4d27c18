"""Everyday times in other languages mean what the same means in English; what is ambiguous is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.languages import translation
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 28, 12, 40, tzinfo=UTC)
"""A Saturday."""

ZONE = "Europe/Berlin"

SAID: Final[Mapping[str, Mapping[str, str]]] = {
    "German": {
        "morgen um 9": "tomorrow at 9",
        "Morgen früh um 9": "tomorrow morning at 9",
        "in zwei Stunden": "in 2 hours",
        "in einer halben Stunde": "in half an hour",
        "nächsten Montag um 14 Uhr": "next monday at 14:00",
        "heute Abend um 8": "tonight at 8",
        "am Freitag um 9 Uhr 30": "friday at 9:30",
        "3. Dezember um 9 Uhr": "3 december at 9:00",
        "in drei Tagen um 9 Uhr": "in 3 days at 9:00",
        "übermorgen": "day after tomorrow",
        "um 22 Uhr": "at 22:00",
        "morgen Mittag": "tomorrow at noon",
        "nächste Woche": "next week",
        "heute um Mitternacht": "midnight tonight",
        "um 8 Uhr abends": "at 8 in the evening",
        "morgen um 7 Uhr morgens": "tomorrow morning at 7",
        "um 2 Uhr nachts": "at 2:00",
        "heute Nacht": "tonight at 23:00",
        "heute Nacht um 2": "at 2:00",
        "heute Nacht um 11": "tonight at 23:00",
        "morgen um eins": "tomorrow at 1",
        "morgen um halb eins": "tomorrow at 12:30",
        "heute Nacht um Viertel vor eins": "at 0:45",
        "am Wochenende": "this weekend",
        "Ende des Monats": "end of month",
        "Ende nächsten Monats": "end of next month",
        "Ende Januar": "end of january",
        "Anfang nächster Woche": "start of next week",
        "morgen um halb neun": "tomorrow at 8:30",
        "um Viertel nach acht abends": "at 20:15",
        "in anderthalb Stunden": "in 90 minutes",
        "in 2 Stunden und 30 Minuten": "in 2 hours and 30 minutes",
        "in zwanzig Minuten": "in 20 minutes",
        "Freitag in einer Woche": "a week from friday",
        "Dienstag nächster Woche um 10 Uhr": "tuesday next week at 10:00",
        "am 24.12. um 18 Uhr": "24 december at 18:00",
        "1.12. 8 Uhr 30": "1 december at 8:30",
        "um 18.30 Uhr": "at 18:30",
        "Samstagabend um 8": "saturday evening at 8",
        "Silvester um 23 Uhr": "new year's eve at 23:00",
        "sofort": "now",
        "morgen um dieselbe Zeit": "same time tomorrow",
        "KW 50": "week 50",
        "Freitag in KW 50 um 9 Uhr": "friday of week 50 at 9:00",
        "in Kalenderwoche 50 2026": "week 50 of 2026",
        "2 Stunden später": "2 hours later",
    },
    "French": {
        "demain à 9h": "tomorrow at 9:00",
        "demain matin à 9 h 30": "tomorrow morning at 9:30",
        "dans deux heures": "in 2 hours",
        "dans une demi-heure": "in half an hour",
        "lundi prochain à 14h": "next monday at 14:00",
        "ce soir à 20h": "this evening at 20:00",
        "vendredi 15h": "friday 15:00",
        "le 1er décembre 2027 à 9h": "1 december 2027 at 9:00",
        "lundi 30 novembre à 9h": "monday 30 november at 9:00",
        "à 22h": "at 22:00",
        "après-demain à midi": "day after tomorrow at noon",
        "aujourd\u2019hui à 23h": "today at 23:00",
        "à midi et demi": "at 12:30",
        "à 8 heures du soir": "at 8 in the evening",
        "demain à neuf heures moins le quart": "tomorrow at 8:45",
        "cette nuit": "tonight at 23:00",
        "ce week-end": "this weekend",
        "fin du mois": "end of month",
        "début janvier": "start of january",
        "lundi en huit": "a week from monday",
        "dans une heure et demie": "in 90 minutes",
        "mardi de la semaine prochaine à 10h": "tuesday next week at 10:00",
        "le 5 à 9h": "the 5th at 9:00",
        "semaine 50": "week 50",
        "en semaine 50": "week 50",
        "lundi de la semaine 50 à 9h": "monday of week 50 at 9:00",
        "2 heures plus tard": "2 hours later",
    },
    "Spanish": {
        "mañana a las 9": "tomorrow at 9",
        "manana a las 9": "tomorrow at 9",
        "mañana por la mañana a las 9": "tomorrow morning at 9",
        "en dos horas": "in 2 hours",
        "dentro de media hora": "in half an hour",
        "el próximo lunes a las 10": "next monday at 10",
        "el lunes que viene a las 10": "next monday at 10",
        "a las 3 de la tarde": "at 3 in the afternoon",
        "3 de diciembre a las 9": "3 december at 9",
        "pasado mañana": "day after tomorrow",
        "hoy a las 22": "today at 22",
        "a mediodía": "at noon",
        "este fin de semana": "this weekend",
        "a fin de mes": "end of month",
        "a finales de enero": "end of january",
        "hoy a las 8 de la noche": "today at 20:00",
        "a las 3 de la madrugada": "at 3:00",
        "mañana a las nueve menos cuarto": "tomorrow at 8:45",
        "en una hora y media": "in 90 minutes",
        "el martes de la próxima semana a las 10": "tuesday next week at 10:00",
        "el lunes a primera hora": "first thing monday",
        "viernes de la semana 50 a las 9": "friday of week 50 at 9:00",
    },
    "Italian": {
        "domani alle 9": "tomorrow at 9",
        "tra due ore": "in 2 hours",
        "fra mezz'ora": "in half an hour",
        "lunedì prossimo alle 14": "next monday at 14",
        "domani mattina": "tomorrow morning",
        "stasera alle 20": "this evening at 20:00",
        "3 dicembre alle 9": "3 december at 9",
        "dopodomani a mezzogiorno": "day after tomorrow at noon",
        "stasera": "this evening",
        "stanotte alle 2": "at 2:00",
        "alle 2 di notte": "at 2:00",
        "questo fine settimana": "this weekend",
        "fine mese": "end of month",
        "domani alle nove e mezza": "tomorrow at 9:30",
        "tra un'ora e mezza": "in 90 minutes",
        "il 24 dicembre alle 18.30": "24 december at 18:30",
        "martedì della prossima settimana alle 10": "tuesday next week at 10:00",
        "settimana 50": "week 50",
    },
    "Portuguese": {
        "amanhã às 9h": "tomorrow at 9:00",
        "daqui a duas horas": "in 2 hours",
        "em meia hora": "in half an hour",
        "próxima segunda-feira às 14h": "next monday at 14:00",
        "amanhã de manhã às 9": "tomorrow morning at 9",
        "3 de dezembro às 9h": "3 december at 9:00",
        "depois de amanhã": "day after tomorrow",
        "hoje à noite": "tonight",
        "hoje à noite às 9": "tonight at 9",
        "este fim de semana": "this weekend",
        "fim do mês": "end of month",
        "fim de janeiro": "end of january",
        "amanhã às 9 e meia": "tomorrow at 9:30",
        "às 3 da madrugada": "at 3:00",
        "daqui a uma hora e meia": "in 90 minutes",
        "dia 24 de dezembro às 18h30": "24 december at 18:30",
        "dia 5 às 9h": "the 5th at 9:00",
        "na terça da próxima semana às 10": "tuesday next week at 10:00",
        "semana 50 de 2027": "week 50 of 2027",
    },
    "Dutch": {
        "morgen om 9 uur": "tomorrow at 9:00",
        "over twee uur": "in 2 hours",
        "over een half uur": "in half an hour",
        "volgende maandag om 14 uur": "next monday at 14:00",
        "morgenochtend om 9 uur": "tomorrow morning at 9",
        "vanavond om 8 uur": "this evening at 8",
        "3 december om 9 uur": "3 december at 9:00",
        "om 22 uur": "at 22:00",
        "vannacht": "tonight at 23:00",
        "dit weekend": "this weekend",
        "eind van de maand": "end of month",
        "morgen om half negen": "tomorrow at 8:30",
        "over anderhalf uur": "in 90 minutes",
        "om 8 uur 's avonds": "at 8 in the evening",
        "dinsdag volgende week om 10 uur": "tuesday next week at 10:00",
        "vrijdag in week 50": "friday of week 50",
    },
}
"""Phrases of users, each with its English twin."""


@dataclass(frozen=True)
class Grammar:
    """Days, times and lengths of a language, in an order of words of its own."""

    today: str
    tomorrow: str
    weekdays: str
    months: str
    timed: str
    """A day with a time: `{day}` and `{hour}`."""
    dated: str
    """A date: `{day}` and `{month}`."""
    coming: str
    """The next weekday."""
    ahead: str
    """A length of time: `{count}` and `{unit}`."""
    units: str


GRAMMARS = {
    "German": Grammar(
        "heute", "morgen", "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "{day} um {hour} Uhr", "{day}. {month}", "nächsten {day}", "in {count} {unit}", "Minuten Stunden Tagen Wochen",
    ),
    "French": Grammar(
        "aujourd'hui", "demain", "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "{day} à {hour}h", "le {day} {month}", "{day} prochain", "dans {count} {unit}", "minutes heures jours semaines",
    ),
    "Spanish": Grammar(
        "hoy", "mañana", "lunes martes miércoles jueves viernes sábado domingo",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "{day} a las {hour}:00", "el {day} de {month}", "el próximo {day}", "en {count} {unit}",
        "minutos horas días semanas",
    ),
    "Italian": Grammar(
        "oggi", "domani", "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "{day} alle ore {hour}:00", "il {day} {month}", "{day} prossimo", "tra {count} {unit}",
        "minuti ore giorni settimane",
    ),
    "Portuguese": Grammar(
        "hoje", "amanhã", "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "{day} às {hour}h", "{day} de {month}", "próxima {day}", "em {count} {unit}", "minutos horas dias semanas",
    ),
    "Dutch": Grammar(
        "vandaag", "morgen", "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "{day} om {hour} uur", "{day} {month}", "volgende {day}", "over {count} {unit}", "minuten uur dagen weken",
    ),
}  # fmt: skip
"""The languages again, apart from the tables that the product reads."""

ENGLISH = Grammar(
    "today", "tomorrow", "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "{day} at {hour}:00", "{day} {month}", "next {day}", "in {count} {unit}", "minutes hours days weeks",
)  # fmt: skip

MOMENTS = st.integers(0, 11 * 365 * 24 * 60).map(
    lambda minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "UTC"])


IDIOMATIC = (8, 15)


@dataclass(frozen=True)
class Meant:
    """A day with a time, or a length of time, which every language can say."""

    kind: str
    place: int
    day: int
    hour: int

    def said(self, grammar: Grammar) -> str:
        if self.kind == "length":
            return grammar.ahead.format(count=self.day, unit=grammar.units.split()[self.place % 4])
        return grammar.timed.format(day=self._day(grammar), hour=self.hour)

    def _day(self, grammar: Grammar) -> str:
        weekday = grammar.weekdays.split()[self.place % 7]
        days = {"today": grammar.today, "tomorrow": grammar.tomorrow, "weekday": weekday}
        if self.kind == "date":
            return grammar.dated.format(day=self.day, month=grammar.months.split()[self.place])
        return days.get(self.kind, grammar.coming.format(day=weekday))


MEANT = st.builds(
    Meant,
    st.sampled_from(["length", "today", "tomorrow", "weekday", "coming", "date"]),
    st.integers(0, 11),
    st.integers(1, 31),
    st.integers(0, 23),
)


def instant(text: str, now: datetime, zone: str) -> datetime | None:
    try:
        return translate(text, now=now, zone=zone).instant
    except InvalidArgument:
        return None


@pytest.mark.parametrize(("language", "text"), [(language, text) for language, said in SAID.items() for text in said])
def test_a_phrase_of_a_user_is_read_as_its_english_twin_and_said_back_in_english(language: str, text: str) -> None:
    found, twin = translate(text, now=NOW, zone=ZONE), translate(SAID[language][text], now=NOW, zone=ZONE)
    assert found.instant == twin.instant
    assert found.assumptions[0] in {f"read as {each}: {times.describe(found.instant, ZONE)}" for each in SAID}


@given(meant=MEANT, language=st.sampled_from(sorted(GRAMMARS)), now=MOMENTS, zone=ZONES)
@examples(400)
def test_every_phrase_equals_its_english_twin(meant: Meant, language: str, now: datetime, zone: str) -> None:
    if meant.day in IDIOMATIC and language in ("French", "Spanish", "Italian", "Portuguese"):
        return  # `dans 15 jours` can be two weeks
    assert instant(meant.said(GRAMMARS[language]), now, zone) == instant(meant.said(ENGLISH), now, zone)


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("in acht Tagen", "in 8 days", "in 1 week"),
        ("dans huit jours", "in 8 days", "in 1 week"),
        ("en quince días", "in 15 days", "in 2 weeks"),
        ("dans 15 jours", "in 15 days", "in 2 weeks"),
        ("20h30", "at 20:30", "in 20 hours and 30 minutes"),
        ("22 uur", "at 22:00", "in 22 hours"),
        ("22 heures", "at 22:00", "in 22 hours"),
    ],
)
def test_an_ambiguous_phrase_is_refused_with_both_readings(text: str, one: str, other: str) -> None:
    with pytest.raises(InvalidArgument, match="can mean two things") as refused:
        translate(text, now=NOW, zone=ZONE)
    assert refused.value.example == f"{one} or {other}"
    assert instant(one, NOW, ZONE) != instant(other, NOW, ZONE)
    assert None not in {instant(one, NOW, ZONE), instant(other, NOW, ZONE)}


@pytest.mark.parametrize(
    "text",
    [
        "morgen 9", "heute Nacht um 7", "Montag morgen um", "9h30", "in 2,5 Stunden", "um 25 Uhr", "31. Februar",
        "morgen um 9 Uhr 75", "tomorrow um 9", "morgen at 9", "mañana de 9 a 11 horas", "jeden Montag um 9",
        "demain entre 9 et 11 heures", "hier à 9h", "gestern", "lundi 3 décembre à 9h", "heute um 8 Uhr",
    ],
)  # fmt: skip
def test_a_phrase_without_a_twin_or_refused_in_english_is_refused(text: str) -> None:
    assert instant(text, NOW, ZONE) is None


def test_the_table_of_the_docs_says_the_same_in_every_column() -> None:
    page = Path(__file__).parents[3] / "docs" / "time.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text(encoding="utf-8").splitlines()]
    table = [row for row in rows if len(row) == 1 + len(SAID)][2:]
    assert len(table) > 5
    for row in table:
        assert len({instant(cell.strip("`"), NOW, ZONE) for cell in row}) == 1


def test_a_length_of_time_needs_no_zone() -> None:
    assert translate("in zwei Stunden", now=NOW, zone=None).instant == NOW + timedelta(hours=2)


def test_english_is_never_put_before_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(text: str) -> Mapping[str, str]:
        raise AssertionError(text)

    monkeypatch.setattr(translation, "twins", unexpected)
    for said in SAID.values():
        for english in said.values():
            assert translate(english, now=NOW, zone=ZONE).instant >= NOW


def test_a_past_time_is_refused_with_its_nearest_future_reading() -> None:
    with pytest.raises(InvalidArgument, match="in the past") as refused:
        translate("heute um 8 Uhr", now=NOW, zone=ZONE)
    shown = datetime.fromisoformat(refused.value.example).replace(tzinfo=ZoneInfo(ZONE))
    assert shown.hour == 8
    assert shown > NOW
