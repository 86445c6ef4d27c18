"""The words for recurrences in the six languages of `everyday_words.py`, each with the English of the same meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class EverydayRules:
    """The words of one language; forms of one word have `/` between.

    `weekdays` are forms that mean every such day, in the order of the English ones. `rules` say all but the time of
    day. `monthly` stands behind a day of the month.
    """

    every: str
    conjunction: str
    weekdays: str
    monthly: str
    rules: Mapping[str, str]


EVERYDAY_RULES: Final[Mapping[str, EverydayRules]] = {
    "German": EverydayRules(
        every="jeden/jede/jedes/alle",
        conjunction="und",
        weekdays="montags, dienstags, mittwochs, donnerstags, freitags, samstags/sonnabends, sonntags",
        monthly="jedes monats/jeden monats/jeden monat/im monat",
        rules={
            "every day": "täglich",
            "every weekday": "werktags/jeden werktag/an werktagen/montag bis freitag/von montag bis freitag",
            "every morning": "jeden morgen/jeden vormittag/morgens",
            "every afternoon": "jeden nachmittag/nachmittags",
            "every evening": "jeden abend/abends",
            "every hour": "stündlich",
            "every week": "wöchentlich",
            "every month": "monatlich",
            "every year": "jährlich/jedes jahr",
        },
    ),
    "French": EverydayRules(
        every="chaque/tous les/toutes les",
        conjunction="et",
        weekdays="lundis, mardis, mercredis, jeudis, vendredis, samedis, dimanches",
        monthly="de chaque mois/du mois",
        rules={
            "every day": "quotidiennement",
            "every weekday": "en semaine/du lundi au vendredi/chaque jour ouvrable/tous les jours ouvrables",
            "every morning": "chaque matin/tous les matins",
            "every afternoon": "chaque après-midi/tous les après-midi",
            "every evening": "chaque soir/tous les soirs",
            "every week": "hebdomadaire",
            "every month": "mensuel",
            "every year": "chaque année/tous les ans",
        },
    ),
    "Spanish": EverydayRules(
        every="cada/todos los/todas las",
        conjunction="y",
        weekdays=(
            "los lunes, los martes, los miércoles, los jueves, los viernes, sábados/los sábados, domingos/los domingos"
        ),
        monthly="de cada mes/del mes",
        rules={
            "every day": "diariamente",
            "every weekday": "entre semana/de lunes a viernes/cada día laborable/todos los días laborables",
            "every morning": "cada mañana/todas las mañanas",
            "every afternoon": "cada tarde/todas las tardes",
            "every night": "cada noche/todas las noches",
            "every week": "semanalmente",
            "every month": "mensualmente",
            "every year": "cada año/todos los años",
        },
    ),
    "Italian": EverydayRules(
        every="ogni/tutti i/tutte le",
        conjunction="e",
        weekdays="i lunedì, i martedì, i mercoledì, i giovedì, i venerdì, sabati/i sabati, domeniche/le domeniche",
        monthly="di ogni mese/del mese",
        rules={
            "every weekday": "nei giorni feriali/dal lunedì al venerdì/ogni giorno feriale",
            "every morning": "ogni mattina/tutte le mattine",
            "every afternoon": "ogni pomeriggio/tutti i pomeriggi",
            "every evening": "ogni sera/tutte le sere",
            "every week": "settimanalmente",
            "every month": "mensilmente",
            "every year": "ogni anno/tutti gli anni",
        },
    ),
    "Portuguese": EverydayRules(
        every="todo/toda/todos os/todas as/a cada/cada",
        conjunction="e",
        weekdays=(
            "segundas-feiras/segundas, terças-feiras/terças, quartas-feiras/quartas, quintas-feiras/quintas, "
            "sextas-feiras/sextas, sábados, domingos"
        ),
        monthly="de cada mês/de todo mês/do mês",
        rules={
            "every day": "diariamente",
            "every weekday": "nos dias úteis/todos os dias úteis/de segunda a sexta/de segunda a sexta-feira",
            "every morning": "toda manhã/todas as manhãs",
            "every afternoon": "toda tarde/todas as tardes",
            "every night": "toda noite/todas as noites",
            "every week": "semanalmente",
            "every month": "mensalmente/todos os meses",
            "every year": "todo ano/todos os anos",
        },
    ),
    "Dutch": EverydayRules(
        every="elke/elk/iedere/ieder",
        conjunction="en",
        weekdays="maandags, dinsdags, woensdags, donderdags, vrijdags, zaterdags, zondags",
        monthly="van elke maand/van de maand",
        rules={
            "every day": "dagelijks",
            "every weekday": "doordeweeks/elke werkdag/op werkdagen/maandag tot en met vrijdag",
            "every morning": "elke ochtend/elke morgen",
            "every afternoon": "elke middag",
            "every evening": "elke avond",
            "every week": "wekelijks",
            "every month": "maandelijks",
            "every year": "jaarlijks/elk jaar",
        },
    ),
}
