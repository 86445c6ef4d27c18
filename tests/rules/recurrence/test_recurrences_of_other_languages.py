"""Recurrences and bounds in other languages mean what the same means in English: one table serves every reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.bounds import resolve_bound
from duetime.scheduler.intake.deadlines import deadline_of, estimate_of
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.time.tokens import WEEKDAY_NAMES
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 28, 12, 40, tzinfo=UTC)
"""A Saturday."""

ZONE = "Europe/Berlin"

RULES: Final[Mapping[str, Mapping[str, str]]] = {
    "German": {
        "jeden Montag um 9": "every monday at 9",
        "jeden Montag und Mittwoch um 9 Uhr": "every monday and wednesday at 9:00",
        "montags um 9 Uhr": "every monday at 9:00",
        "um 9 Uhr jeden Tag": "every day at 9:00",
        "täglich um 9 Uhr 30": "every day at 9:30",
        "alle 15 Minuten": "every 15 minutes",
        "alle zwei Wochen am Freitag um 14 Uhr": "every 2 weeks on friday at 14:00",
        "jede Stunde": "every hour",
        "stündlich": "every hour",
        "jeden Werktag um 9": "every weekday at 9",
        "von Montag bis Freitag um 9 Uhr": "every weekday at 9:00",
        "jeden Morgen um 8": "every morning at 8",
        "am 1. jedes Monats um 9 Uhr": "every month on the 1st at 9:00",
        "jährlich": "every year",
        "jeden ersten Montag im Monat um 9 Uhr": "on the first monday of every month at 9:00",
        "am letzten Tag des Monats": "on the last day of the month",
        "alle zwei Wochen dienstags": "every 2 weeks on tuesday",
        "jeden zweiten Tag": "every 2 days",
        "alle drei Monate am 1.": "every 3 months on the 1st",
        "jeden Tag um 8 und 20 Uhr": "every day at 8:00 and 20:00",
        "täglich um 8 Uhr abends": "every day at 20:00",
        "jeden Tag außer sonntags um 9": "every day except sunday at 9",
        "montags, mittwochs und freitags um halb neun": "every monday, wednesday and friday at 8:30",
        "jedes Wochenende um 10 Uhr": "every weekend at 10:00",
        "alle halbe Stunde": "every 30 minutes",
        "jeden Montag um 9 bis Weihnachten": "every monday at 9 until christmas day",
        "jeden Montag bis Ende Januar": "every monday until the end of january",
        "alle 30 Minuten von 9 bis 17 Uhr": "every 30 minutes from 9 to 17",
        "werktags alle 30 Minuten von 9 bis 17 Uhr": "every weekday every 30 minutes from 9 to 17",
        "stündlich zwischen 8:30 und 16:30 montags bis freitags": "every weekday every hour between 8:30 and 16:30",
        "montags alle 2 Stunden von 8 bis 18 Uhr": "every monday every 2 hours from 8 to 18",
        "alle 2 Stunden von 8 bis 18 Uhr am Montag": "every monday every 2 hours from 8 to 18",
    },
    "French": {
        "chaque lundi à 9h": "every monday at 9:00",
        "toutes les 30 minutes de 9h à 17h": "every 30 minutes from 9 to 17",
        "toutes les heures entre 9h et 17h en semaine": "every weekday every hour from 9 to 17",
        "tous les lundis et jeudis à 9 h 30": "every monday and thursday at 9:30",
        "tous les jours à 18h": "every day at 18:00",
        "toutes les 15 minutes": "every 15 minutes",
        "toutes les deux heures": "every 2 hours",
        "du lundi au vendredi à 9h": "every weekday at 9:00",
        "chaque matin à 8h": "every morning at 8:00",
        "le 1er de chaque mois à 9h": "every month on the 1st at 9:00",
        "le 22 de chaque mois": "every month on the 22nd",
        "tous les jours ouvrés à 9h": "every weekday at 9:00",
        "un mardi sur deux à 9h": "every other tuesday at 9:00",
        "le premier lundi du mois à 9h": "on the first monday of the month at 9:00",
        "tous les jours sauf le dimanche à 9h": "every day except sunday at 9:00",
        "du lundi au vendredi à 9h et 14h": "every weekday at 9:00 and 14:00",
        "tous les week-ends à 10h": "every weekend at 10:00",
        "chaque trimestre": "every 3 months",
    },
    "Spanish": {
        "cada 30 minutos de 9 a 17": "every 30 minutes from 9 to 17",
        "cada hora entre las 9 y las 17": "every hour from 9 to 17",
        "cada lunes a las 9": "every monday at 9",
        "todos los lunes y jueves a las 9": "every monday and thursday at 9",
        "todos los días a las 8 de la tarde": "every day at 8 in the afternoon",
        "cada 15 minutos": "every 15 minutes",
        "cada día a las 9 y 45": "every day at 9:45",
        "cada día a las 9 y a las 21": "every day at 9 and 21",
        "cada dos horas": "every 2 hours",
        "de lunes a viernes a las 9": "every weekday at 9",
        "cada mañana a las 8": "every morning at 8",
        "el 1 de cada mes a las 9": "every month on the 1st at 9",
        "los domingos al mediodía": "every sunday at noon",
        "un martes sí y otro no": "every other tuesday",
        "cada dos martes": "every 2 weeks on tuesday",
        "todos los días hábiles a las 9": "every weekday at 9",
        "el primer lunes de cada mes a las 9": "on the first monday of every month at 9",
        "todos los fines de semana a las 10": "every weekend at 10",
        "todos los días excepto los domingos": "every day except sunday",
        "de lunes a viernes a las 9 y a las 17": "every weekday at 9 and 17",
    },
    "Italian": {
        "ogni 30 minuti dalle 9 alle 17": "every 30 minutes from 9 to 17",
        "ogni ora tra le 9 e le 17": "every hour from 9 to 17",
        "ogni lunedì alle 9": "every monday at 9",
        "tutti i giorni alle 18": "every day at 18",
        "ogni 15 minuti": "every 15 minutes",
        "ogni ora": "every hour",
        "dal lunedì al venerdì alle 9": "every weekday at 9",
        "ogni mattina alle 8": "every morning at 8",
        "il 3 di ogni mese alle 9": "every month on the 3rd at 9",
        "ogni lunedì e giovedì alle 9": "every monday and thursday at 9",
        "un martedì sì e uno no": "every other tuesday",
        "tutti i giorni lavorativi alle 9": "every weekday at 9",
        "ogni primo lunedì del mese alle 9": "on the first monday of every month at 9",
        "l'ultimo venerdì del mese": "on the last friday of the month",
        "ogni mezz'ora": "every 30 minutes",
        "ogni giorno tranne la domenica": "every day except sunday",
    },
    "Portuguese": {
        "a cada 30 minutos das 9 às 17": "every 30 minutes from 9 to 17",
        "a cada hora entre as 9h e as 17h": "every hour from 9 to 17",
        "toda segunda-feira às 9h": "every monday at 9:00",
        "todas as segundas e quintas às 9h": "every monday and thursday at 9:00",
        "todos os dias às 18h": "every day at 18:00",
        "a cada 15 minutos": "every 15 minutes",
        "de segunda a sexta às 9h": "every weekday at 9:00",
        "toda manhã às 8": "every morning at 8",
        "no 2 de cada mês": "every month on the 2nd",
        "todo dia 5 às 9h": "every month on the 5th at 9:00",
        "todo dia útil às 9h": "every weekday at 9:00",
        "toda primeira segunda do mês às 9h": "on the first monday of every month at 9:00",
        "a cada duas semanas na terça": "every 2 weeks on tuesday",
        "todo fim de semana às 10h": "every weekend at 10:00",
        "todos os dias exceto domingo": "every day except sunday",
    },
    "Dutch": {
        "elke 30 minuten van 9 tot 17 uur": "every 30 minutes from 9 to 17",
        "elk uur tussen 9 en 17 uur": "every hour from 9 to 17",
        "elke maandag om 9 uur": "every monday at 9:00",
        "elke maandag en donderdag om 9 uur": "every monday and thursday at 9:00",
        "dagelijks om 18 uur": "every day at 18:00",
        "elke 15 minuten": "every 15 minutes",
        "elk uur": "every hour",
        "elke werkdag om 9 uur": "every weekday at 9:00",
        "elke ochtend om 8 uur": "every morning at 8:00",
        "de 11 van elke maand om 9 uur": "every month on the 11th at 9:00",
        "om de dinsdag": "every other tuesday",
        "elke eerste maandag van de maand om 9 uur": "on the first monday of every month at 9:00",
        "elk weekend om 10 uur": "every weekend at 10:00",
        "elke dag behalve zondag": "every day except sunday",
        "elke werkdag om half negen": "every weekday at 8:30",
    },
}
BOUNDS: Final[Mapping[str, Mapping[str, str]]] = {
    "German": {
        "gestern": "yesterday",
        "heute": "today",
        "gestern Abend": "yesterday evening",
        "vor 2 Stunden": "2 hours ago",
        "letzte Woche": "last week",
        "diese Woche": "this week",
        "Montag": "monday",
        "morgen um 9": "tomorrow at 9",
        "in drei Tagen": "in 3 days",
    },
    "French": {
        "hier": "yesterday",
        "il y a deux heures": "2 hours ago",
        "la semaine dernière": "last week",
        "aujourd'hui": "today",
        "demain": "tomorrow",
        "vendredi": "friday",
    },
    "Spanish": {
        "ayer": "yesterday",
        "hace una hora": "1 hour ago",
        "la semana pasada": "last week",
        "hoy": "today",
        "mañana": "tomorrow",
        "viernes": "friday",
    },
    "Italian": {
        "ieri": "yesterday",
        "due ore fa": "2 hours ago",
        "la settimana scorsa": "last week",
        "oggi": "today",
        "domani": "tomorrow",
        "venerdì": "friday",
    },
    "Portuguese": {
        "ontem": "yesterday",
        "há duas horas": "2 hours ago",
        "duas horas atrás": "2 hours ago",
        "semana passada": "last week",
        "hoje": "today",
        "amanhã": "tomorrow",
    },
    "Dutch": {
        "gisteren": "yesterday",
        "twee uur geleden": "2 hours ago",
        "vorige week": "last week",
        "vandaag": "today",
        "morgen": "tomorrow",
        "vrijdag": "friday",
    },
}


@dataclass(frozen=True)
class Rules:
    """Recurrences of a language, apart from the tables that the product reads."""

    weekdays: str
    on: str
    counted: str
    monthly: str


GRAMMARS = {
    "German": Rules(
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "jeden {day} um {hour} Uhr", "alle {count} Minuten", "am {date}. jedes Monats um {hour} Uhr",
    ),
    "French": Rules(
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "chaque {day} à {hour}h", "toutes les {count} minutes", "le {date} de chaque mois à {hour}h",
    ),
    "Spanish": Rules(
        "lunes martes miércoles jueves viernes sábado domingo",
        "cada {day} a las {hour}:00", "cada {count} minutos", "el {date} de cada mes a las {hour}:00",
    ),
    "Italian": Rules(
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "ogni {day} alle {hour}:00", "ogni {count} minuti", "il {date} di ogni mese alle {hour}:00",
    ),
    "Portuguese": Rules(
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "toda {day} às {hour}h", "a cada {count} minutos", "no {date} de cada mês às {hour}h",
    ),
    "Dutch": Rules(
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "elke {day} om {hour} uur", "elke {count} minuten", "de {date} van elke maand om {hour} uur",
    ),
}  # fmt: skip
ENGLISH = Rules(
    " ".join(WEEKDAY_NAMES).lower(),
    "every {day} at {hour}:00", "every {count} minutes", "every month on the {date}th at {hour}:00",
)  # fmt: skip


def rule_of(text: str) -> str | None:
    try:
        return recurrence.parse(text, zone=ZONE, anchor=NOW).rule
    except InvalidArgument:
        return None


@pytest.mark.parametrize(("language", "text"), [(language, text) for language, said in RULES.items() for text in said])
def test_a_recurrence_is_read_as_its_english_twin(language: str, text: str) -> None:
    assert rule_of(text) == rule_of(RULES[language][text]) is not None


@dataclass(frozen=True)
class Meant:
    """A recurrence that every language can say."""

    form: str
    place: int
    number: int
    hour: int

    def said(self, grammar: Rules) -> str:
        day, number = grammar.weekdays.split()[self.place], self.number
        forms = {"on": grammar.on, "counted": grammar.counted, "monthly": grammar.monthly}
        return forms[self.form].format(day=day, count=number, date=number, hour=self.hour)


MEANT = st.builds(
    Meant, st.sampled_from(["on", "counted", "monthly"]), st.integers(0, 6), st.integers(2, 31), st.integers(0, 23)
)


@given(meant=MEANT, language=st.sampled_from(sorted(GRAMMARS)))
@examples(400)
def test_every_recurrence_equals_its_english_twin(meant: Meant, language: str) -> None:
    assert rule_of(meant.said(GRAMMARS[language])) == rule_of(meant.said(ENGLISH)) is not None


@pytest.mark.parametrize("argument", ["before", "after"])
@pytest.mark.parametrize(("language", "text"), [(language, text) for language, said in BOUNDS.items() for text in said])
def test_a_bound_is_read_as_its_english_twin(language: str, text: str, argument: str) -> None:
    twin = resolve_bound(BOUNDS[language][text], now=NOW, zone=ZONE, argument=argument)
    assert resolve_bound(text, now=NOW, zone=ZONE, argument=argument) == twin


@pytest.mark.parametrize("text", ["jeden Montag um 9", "chaque lundi à 9h", "alle 15 Minuten", "todos los días"])
def test_a_recurrence_as_a_time_is_refused_with_where_it_belongs(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is a recurrence") as refused:
        resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert refused.value.example == f"repeat={text!r}"


@pytest.mark.parametrize(
    "text", ["jeden Montag at 9", "every Montag", "jeden um 9", "alle 2 Montage", "morgen um 9", "chaque", "terça sim"]
)
def test_a_recurrence_without_a_twin_is_refused(text: str) -> None:
    assert rule_of(text) is None


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("jeden zweiten Dienstag", "every 2 weeks on tuesday or on the second tuesday of every month"),
        ("ogni secondo martedì", "every 2 weeks on tuesday or on the second tuesday of every month"),
        ("tous les quinze jours", "every 15 days or every 2 weeks"),
        ("todos los días a las nueve y diez", "every day at 9:10 or every day at 9 and 10"),
        ("ogni giorno alle 9 e 20", "every day at 9:20 or every day at 9 and 20"),
        ("cada 15 días", "every 15 days or every 2 weeks"),
        ("werktags außer feiertags", "every weekday except public holidays in CA-AB"),
        ("deux fois par jour", "every day at 9:00 and 17:00"),
        ("um 8 Uhr abends", "every day at 8:00 in the evening"),
        ("every night at 2", "every day at 02:00"),
        ("24/7", "every hour or every 15 minutes"),
        ("rund um die Uhr", "every hour or every 15 minutes"),
        ("every day 24/7", "every hour or every 15 minutes"),
        ("ogni giorno dopo pranzo", "every day at 13:00"),
        ("jeden Tag zum Mittagessen", "every day at 12:30"),
    ],
)
def test_a_refused_recurrence_shows_what_it_can_mean(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        recurrence.parse(text, zone=ZONE, anchor=NOW)
    assert refused.value.example == example
    assert all(rule_of(one) for one in example.split(" or "))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("bis Freitag um 17 Uhr", "by friday 17:00"),
        ("bis Freitag", "by friday"),
        ("spätestens morgen um 12", "by tomorrow at 12:00"),
        ("bis 17 Uhr", "by 17:00"),
        ("avant vendredi 17h", "by friday 17:00"),
        ("avant vendredi", "before friday"),
        ("vor Freitag", "before friday"),
        ("antes del viernes", "before friday"),
        ("prima di venerdì", "before friday"),
        ("antes de sexta", "before friday"),
        ("voor vrijdag", "before friday"),
        ("vor dem 4. Dezember", "before 4 december"),
        ("vor nächster Woche", "before next week"),
        ("avant la fin du mois", "by the end of the month"),
        ("avant 17h", "by 17:00"),
        ("vor 17 Uhr", "by 17:00"),
        ("antes das 17h", "by 17:00"),
        ("bis Juni", "until june"),
        ("Ende des Tages", "end of day"),
        ("fin de la journée", "end of day"),
        ("fim do dia", "end of day"),
        ("2 hours after", "2 hours"),
        ("2 Stunden danach", "2 hours afterwards"),
        ("2 heures après", "2 hours afterwards"),
        ("dos horas después", "2 hours afterwards"),
        ("2 ore dopo", "2 hours afterwards"),
        ("2 horas depois", "2 hours afterwards"),
        ("2 uur daarna", "2 hours afterwards"),
        ("diese Woche", "by sunday"),
        ("cette semaine", "this week"),
        ("este mes", "this month"),
        ("questa settimana", "this week"),
        ("bis zum Wochenende", "by the weekend"),
        ("KW 50", "by 13 december"),
        ("2 hours after it starts", "2 hours"),
        ("within 2 hours of the start", "2 hours"),
        ("avant juin", "before june"),
        ("vor Juni", "before june"),
        ("antes de las 17", "by 17:00"),
        ("antes das 17", "by 17:00"),
        ("prima delle 17", "by 17:00"),
        ("before in 2 hours", "in 2 hours"),
        ("entro giugno 2027", "until june 2027"),
        ("d'ici la fin du mois", "by the end of the month"),
        ("para el viernes", "by friday"),
        ("entro fine mese", "by the end of the month"),
        ("até sexta às 17h", "by friday 17:00"),
        ("uiterlijk vrijdag", "by friday"),
        ("no later than friday 17:00", "by friday 17:00"),
        ("innerhalb von 3 Stunden", "within 3 hours"),
        ("zwei Stunden", "2 hours"),
        ("dans les 3 heures", "within 3 hours"),
        ("entro 2 ore", "within 2 hours"),
        ("em até 3 horas", "within 3 hours"),
        ("d'ici 3 heures", "in 3 hours"),
    ],
)
def test_a_deadline_is_read_as_its_english_twin(text: str, english: str) -> None:
    due = NOW + timedelta(hours=1)
    found, twin = (deadline_of(said, due=due, now=NOW, zone=ZONE, recurring=False) for said in (text, english))
    assert (found.at, found.after) == (twin.at, twin.after)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("eine halbe Stunde", 30),
        ("anderthalb Stunden", 90),
        ("2 Stunden und 30 Minuten", 150),
        ("une heure et demie", 90),
        ("deux heures", 120),
        ("una hora y media", 90),
        ("un'ora", 60),
        ("meia hora", 30),
        ("een half uur", 30),
        ("1h30", 90),
        ("three quarters of an hour", 45),
    ],
)
def test_an_estimate_is_a_length_of_time_in_any_language(text: str, minutes: int) -> None:
    assert estimate_of(text) == timedelta(minutes=minutes)


def test_an_ambiguous_bound_is_refused_with_both_readings() -> None:
    with pytest.raises(InvalidArgument, match=r"^before: 'in acht Tagen' can mean two things") as refused:
        resolve_bound("in acht Tagen", now=NOW, zone=ZONE, argument="before")
    assert refused.value.example == "before='in 8 days' or before='in 1 week'"


def test_a_time_of_day_as_a_deadline_is_the_first_after_the_run_is_due() -> None:
    due = datetime(2026, 11, 30, 9, tzinfo=UTC)
    found, twin = (deadline_of(said, due=due, now=NOW, zone=ZONE, recurring=False) for said in ("um 17 Uhr", "17:00"))
    assert found.at == twin.at == datetime(2026, 11, 30, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("before friday", "2026-12-03T23:59:59"),
        ("before tomorrow", "2026-11-28T23:59:59"),
        ("before next week", "2026-11-29T23:59:59"),
        ("before christmas", "2026-12-24T23:59:59"),
        ("before 3 december", "2026-12-02T23:59:59"),
        ("before june", "2027-05-31T23:59:59"),
        ("before friday 17:00", "2026-12-04T17:00:00"),
        ("before friday evening", "2026-12-04T18:00:00"),
        ("before 17:00", "2026-11-28T17:00:00"),
        ("by friday", "2026-12-04T23:59:59"),
        ("until friday", "2026-12-04T23:59:59"),
    ],
)
def test_before_a_day_is_the_end_of_the_day_before_it(text: str, wall: str) -> None:
    due = NOW + timedelta(minutes=5)
    found = deadline_of(text, due=due, now=NOW, zone=ZONE, recurring=False).at
    assert found is not None
    assert found.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None) == datetime.fromisoformat(wall)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        *((text, "the day before friday or friday") for text in ("before friday", "avant vendredi", "vor Freitag")),
        *((text, "17:00") for text in ("before 17:00", "vor 17 Uhr", "avant 17h", "antes das 17h", "voor 17 uur")),
        *((text, "at 17") for text in ("before 17", "antes de las 17", "prima delle 17")),
        *(
            (text, "the day before end of month or end of month")
            for text in ("before end of month", "avant la fin du mois", "vor Ende des Monats", "antes de fin de mes")
        ),
    ],
)
def test_an_end_where_a_time_is_asked_for_is_refused_with_the_days_or_times(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument, match="names an end, and no time") as refused:
        resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert refused.value.example == example


@pytest.mark.parametrize("text", ["antes de 2 horas", "prima di 2 ore", "before 2 hours"])
def test_a_length_of_time_is_no_hour_that_something_ends_before(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        deadline_of(text, due=NOW, now=NOW, zone=ZONE, recurring=False)
    assert refused.value.example == "deadline='2 hours'"


def test_the_weekend_that_is_now_has_no_time_before_it() -> None:
    with pytest.raises(InvalidArgument, match="is in the past"):
        deadline_of("before the weekend", due=NOW, now=NOW, zone=ZONE, recurring=False)


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("every 15 minutes 24/7", "every 15 minutes"),
        ("24/7, every hour", "every hour"),
        ("every hour around the clock", "every hour"),
        ("terça sim, terça não", "every other tuesday"),
        ("terça sim, terça não às 9h", "every other tuesday at 9:00"),
        ("lunes sí, lunes no a las 9", "every other monday at 9"),
        ("lunedì sì lunedì no alle 9", "every other monday at 9"),
    ],
)
def test_words_for_all_times_and_for_every_second_day_are_read(text: str, english: str) -> None:
    assert rule_of(text) == rule_of(english)


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("24/7", "repeat='every hour' or repeat='every 15 minutes' or when='24 july'"),
        ("around the clock", "repeat='every hour' or repeat='every 15 minutes'"),
        ("domani a pranzo", "tomorrow at 12:30"),
        ("domani dopo pranzo", "tomorrow at 13:00"),
        ("morgen zum Mittagessen", "tomorrow at 12:30"),
        ("demain après le déjeuner", "tomorrow at 13:00"),
        ("mañana después de comer", "tomorrow at 13:00"),
        ("amanhã na hora do almoço", "tomorrow at 12:30"),
        ("morgen nach Feierabend", "tomorrow at 18:00"),
        ("en fin de semaine", "this weekend or end of week"),
        ("Mitte der Woche", "wednesday"),
        ("the middle of next week", "wednesday next week"),
    ],
)
def test_an_occasion_is_refused_with_a_time_that_means_it(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert refused.value.example == example


@pytest.mark.parametrize("text", ["every day after lunch", "jeden Tag nach dem Mittagessen"])
def test_a_recurrence_at_an_occasion_is_refused_without_an_unrelated_time(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert refused.value.example == "repeat='every day at 13:00'"


@pytest.mark.parametrize(
    ("text", "wall"),
    [("24/7 at 9:00", "2027-07-24"), ("24/7/2027", "2027-07-24"), ("en début de semaine", "2026-11-30")],
)
def test_a_date_of_july_and_the_start_of_a_week_stay_days(text: str, wall: str) -> None:
    found = resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert f"{found.wall:%Y-%m-%dT%H:%M}" == f"{wall}T09:00"


@pytest.mark.parametrize("text", ["end of day", "by the end of the day", "eod", "Ende des Tages", "before eod"])
def test_the_end_of_day_is_that_of_the_day_on_which_a_run_is_due(text: str) -> None:
    due = NOW + timedelta(days=2)
    found = deadline_of(text, due=due, now=NOW, zone=ZONE, recurring=False).at
    assert found == datetime(2026, 11, 30, 22, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("mañana a las 7 de la tarde", "2026-11-29T19:00"),
        ("amanhã às 8 da tarde", "2026-11-29T20:00"),
        ("tomorrow at 7 in the afternoon", "2026-11-29T19:00"),
        ("20261201T090000", "2026-12-01T09:00"),
        ("20261201T080000Z", "2026-12-01T09:00"),
        ("20261201T090000+0100", "2026-12-01T09:00"),
        ("later today at 18:00", "2026-11-28T18:00"),
        ("later this evening at 8", "2026-11-28T20:00"),
        ("last day of this month at noon", "2026-11-30T12:00"),
    ],
)
def test_forms_of_calendars_and_late_afternoons_are_read(text: str, wall: str) -> None:
    found = resolve_moment(text, now=NOW, zone=ZONE, argument="when")
    assert f"{found.wall:%Y-%m-%dT%H:%M}" == wall


def test_a_day_of_this_month_that_is_over_is_not_one_of_the_next() -> None:
    with pytest.raises(InvalidArgument, match="is in the past: Fri 27 Nov 2026 12:00"):
        resolve_moment("the last friday of this month at noon", now=NOW, zone=ZONE, argument="when")


@pytest.mark.parametrize(
    ("text", "example"),
    [
        (
            "DTSTART:20261201T090000 RRULE:FREQ=DAILY;COUNT=5",
            "repeat='RRULE:FREQ=DAILY;COUNT=5', when='2026-12-01T09:00'",
        ),
        (
            "DTSTART;TZID=America/New_York:20261201T090000\nRRULE:FREQ=DAILY",
            "repeat='RRULE:FREQ=DAILY', when='2026-12-01T09:00', timezone='America/New_York'",
        ),
        ("FREQ=DAILY;DTSTART=20261201", "repeat='FREQ=DAILY', when='2026-12-01'"),
        ("R/2026-12-01T09:00/P1D", "every weekday at 9:00"),
    ],
)
def test_a_rule_with_its_start_is_refused_with_both_apart(text: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        recurrence.parse(text, zone=ZONE, anchor=NOW)
    assert refused.value.example == example
