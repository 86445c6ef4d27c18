"""French: `demain à neuf heures et demie`, `ce week-end`, `un mardi sur deux`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

FRENCH: Final = Language(
    into="dans",
    ago="il y a",
    at="à, vers",
    articles="le, ce, du, de",
    following="prochain, prochaine",
    weekdays="lundi, mardi, mercredi, jeudi, vendredi, samedi, dimanche",
    months="janvier, février, mars, avril, mai, juin, juillet, août, septembre, octobre, novembre, décembre",
    numbers=(
        "un/une, deux, trois, quatre, cinq, six, sept, huit, neuf, dix, onze, douze, treize, quatorze, quinze, seize, "
        "dix-sept, dix-huit, dix-neuf, vingt"
    ),
    more_numbers={"30": "trente", "40": "quarante", "45": "quarante-cinq", "60": "soixante"},
    units={
        "minutes": "minute/minutes/min",
        "days": "jour/jours",
        "weeks": "semaine/semaines",
        "months": "mois",
    },
    days={
        "now": "maintenant/tout de suite/immédiatement",
        "today": "aujourd'hui",
        "tomorrow": "demain",
        "day after tomorrow": "après-demain/après demain",
        "this morning": "ce matin",
        "this afternoon": "cet après-midi/cet après midi",
        "this evening": "ce soir",
        "next month": "le mois prochain",
        "this weekend": "ce week-end/ce weekend/le week-end/le weekend/pendant le week-end",
        "next weekend": "le week-end prochain/le weekend prochain",
        "end of day": "la fin de la journée/fin de la journée/à la fin de la journée/en fin de journée",
        "start of week": "en début de semaine/début de semaine/au début de la semaine",
        "mid week": "en milieu de semaine/milieu de semaine/au milieu de la semaine/à mi-semaine",
        "this weekend or end of week": "en fin de semaine/fin de semaine/cette fin de semaine",
        "end of week": "la fin de la semaine/fin de la semaine/à la fin de la semaine",
        "end of month": "fin du mois/la fin du mois/à la fin du mois/en fin de mois/fin de mois",
        "end of next month": "la fin du mois prochain/fin du mois prochain/à la fin du mois prochain",
        "end of year": "fin de l'année/la fin de l'année/à la fin de l'année",
        "start of next week": "début de la semaine prochaine/au début de la semaine prochaine",
        "start of next month": "début du mois prochain/au début du mois prochain",
        "christmas eve": "la veille de noël/le réveillon de noël",
        "christmas day": "noël/à noël/le jour de noël",
        "new years day": "le jour de l'an",
        "yesterday": "hier",
        "this week": "cette semaine",
        "this month": "ce mois/ce mois-ci/ce mois ci",
        "this year": "cette année",
        "last week": "la semaine dernière/la semaine passée",
        "last month": "le mois dernier",
    },
    parts={
        "morning": "matin/du matin",
        "afternoon": "après-midi/après midi/de l'après-midi",
        "evening": "soir/du soir",
        "night": "de la nuit",
    },
    times={"noon": "midi", "midnight": "minuit", "the same time": "la même heure"},
    occasions={
        "lunch": "au déjeuner/à l'heure du déjeuner/pendant le déjeuner",
        "before lunch": "avant le déjeuner/avant déjeuner",
        "after lunch": "après le déjeuner/après déjeuner",
        "dinner": "au dîner/à l'heure du dîner",
        "after dinner": "après le dîner/après dîner",
        "breakfast": "au petit déjeuner/au petit-déjeuner",
        "after work": "après le travail/après le boulot",
    },
    lengths={
        "30 minutes": "une demi-heure/une demi heure",
        "15 minutes": "un quart d'heure",
        "45 minutes": "trois quarts d'heure",
    },
    after_hour={"30": "et demie/et demi", "15": "et quart", "-15": "moins le quart"},
    by="au plus tard, au plus tard le, jusqu'au, jusqu'à",
    before="avant le, avant la, avant les, avant l'",
    before_clock="avant",
    within="dans les, sous, en moins de",
    limit={"in": "d'ici/d'ici à/d'ici le"},
    edges={"end of": "fin/à la fin du mois de", "start of": "début/au début du mois de"},
    late="cette nuit",
    next_week="la semaine prochaine/semaine prochaine/de la semaine prochaine",
    every="chaque/tous les/toutes les",
    afterwards={"afterwards": "après/ensuite", "later": "plus tard"},
    calendar_week=(
        "semaine no/semaine numéro/en semaine/en semaine no/en semaine numéro/la semaine/de la semaine/dans la semaine/"
        "à la semaine/pendant la semaine"
    ),
    between="entre",
    conjunction="et",
    plural_weekdays="lundis, mardis, mercredis, jeudis, vendredis, samedis, dimanches",
    monthly="de chaque mois/chaque mois",
    of_month="du mois",
    ordinals=(
        "premier/premiers/première, deuxième/deuxièmes/second/seconde, troisième/troisièmes, quatrième/quatrièmes, "
        "dernier/derniers/dernière"
    ),
    exceptions="sauf, sauf le, sauf les, excepté, excepté le, excepté les, à l'exception du",
    holidays="jours fériés/fériés",
    rules={
        "around the clock": "24h sur 24/24 heures sur 24/jour et nuit",
        "every day": "quotidiennement",
        "every weekday": (
            "en semaine/du lundi au vendredi/chaque jour ouvrable/tous les jours ouvrables/chaque jour ouvré/"
            "tous les jours ouvrés/les jours ouvrés/les jours ouvrables"
        ),
        "every weekend": "chaque week-end/tous les week-ends/tous les weekends/chaque weekend/les week-ends",
        "every morning": "chaque matin/tous les matins",
        "every afternoon": "chaque après-midi/tous les après-midi",
        "every evening": "chaque soir/tous les soirs",
        "every night": "chaque nuit/toutes les nuits",
        "every 30 minutes": "toutes les demi-heures/toutes les demi heures",
        "every week": "hebdomadaire",
        "every other day": "un jour sur deux",
        "every month": "mensuel",
        "every 3 months": "chaque trimestre/tous les trimestres",
        "every 6 months": "chaque semestre/tous les semestres",
        "every year": "chaque année/tous les ans",
        "twice a day": "deux fois par jour/2 fois par jour",
        "three times a day": "trois fois par jour/3 fois par jour",
        "twice a week": "deux fois par semaine/2 fois par semaine",
    },
    alternate="sur deux",
    later={"a week": "en huit", "2 weeks": "en quinze"},
    hours="h, heure/heures",
    idioms={
        "huit jours": ("8 days", "1 week"),
        "8 jours": ("8 days", "1 week"),
        "quinze jours": ("15 days", "2 weeks"),
        "15 jours": ("15 days", "2 weeks"),
    },
)
