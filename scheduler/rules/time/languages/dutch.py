"""Dutch: `morgen om half negen`, `dit weekend`, `elke eerste maandag van de maand`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

DUTCH: Final = Language(
    into="over",
    ago="geleden",
    at="om, rond",
    articles="op, de, het",
    following="volgende, aanstaande, komende",
    weekdays="maandag, dinsdag, woensdag, donderdag, vrijdag, zaterdag, zondag",
    months="januari, februari, maart, april, mei, juni, juli, augustus, september, oktober, november, december",
    numbers=(
        "een/één, twee, drie, vier, vijf, zes, zeven, acht, negen, tien, elf, twaalf, dertien, veertien, vijftien, "
        "zestien, zeventien, achttien, negentien, twintig"
    ),
    more_numbers={"30": "dertig", "40": "veertig", "45": "vijfenveertig", "60": "zestig", "90": "negentig"},
    units={
        "minutes": "minuut/minuten/min",
        "days": "dag/dagen",
        "weeks": "week/weken",
        "months": "maand/maanden",
    },
    days={
        "now": "nu/nu meteen/meteen/direct",
        "today": "vandaag",
        "tomorrow": "morgen",
        "day after tomorrow": "overmorgen",
        "tomorrow morning": "morgenochtend/morgenvroeg",
        "tomorrow afternoon": "morgenmiddag",
        "tomorrow evening": "morgenavond",
        "this morning": "vanochtend/vanmorgen",
        "this afternoon": "vanmiddag",
        "this evening": "vanavond",
        "next month": "volgende maand",
        "this weekend": "dit weekend/in het weekend/het weekend",
        "next weekend": "volgend weekend/komend weekend",
        "end of week": "eind van de week/einde van de week/aan het eind van de week/het eind van de week",
        "end of next week": "eind volgende week",
        "end of month": (
            "eind van de maand/einde van de maand/aan het eind van de maand/aan het einde van de maand/"
            "het eind van de maand/het einde van de maand"
        ),
        "end of next month": "eind volgende maand/eind van de volgende maand",
        "end of year": "eind van het jaar/einde van het jaar/aan het eind van het jaar",
        "start of next week": "begin volgende week",
        "start of next month": "begin volgende maand",
        "christmas eve": "kerstavond/op kerstavond",
        "new years eve": "oudejaarsavond/op oudejaarsavond/oudjaar",
        "new years day": "nieuwjaarsdag/op nieuwjaarsdag",
        "yesterday": "gisteren",
        "this week": "deze week",
        "last week": "vorige week/afgelopen week",
        "last month": "vorige maand/afgelopen maand",
    },
    parts={
        "morning": "ochtend/'s ochtends/'s morgens",
        "afternoon": "'s middags",
        "evening": "avond/'s avonds",
        "night": "'s nachts",
    },
    times={"midnight": "middernacht", "the same time": "dezelfde tijd/op dezelfde tijd/dezelfde tijd"},
    lengths={
        "30 minutes": "een half uur/half uur",
        "15 minutes": "een kwartier/kwartier",
        "45 minutes": "drie kwartier/driekwartier",
        "1 hour": "een uur",
        "90 minutes": "anderhalf uur",
    },
    before_hour={"-30": "half", "15": "kwart over", "-15": "kwart voor"},
    compounds={"morning": "ochtend/morgen", "afternoon": "middag", "evening": "avond"},
    by="tot, uiterlijk, uiterlijk op, tegen",
    before="voor, vóór",
    within="binnen",
    limit={},
    edges={"end of": "eind/einde", "start of": "begin", "mid": "midden"},
    late="vannacht",
    next_week="volgende week/komende week",
    every="elke/elk/iedere/ieder/alle",
    conjunction="en",
    plural_weekdays="maandags, dinsdags, woensdags, donderdags, vrijdags, zaterdags, zondags",
    monthly="van elke maand/van iedere maand",
    of_month="van de maand",
    ordinals="eerste, tweede, derde, vierde, laatste",
    exceptions="behalve, behalve op, maar niet op, uitgezonderd",
    holidays="feestdagen/op feestdagen",
    rules={
        "every day": "dagelijks",
        "every weekday": (
            "doordeweeks/elke werkdag/iedere werkdag/op werkdagen/maandag tot en met vrijdag/"
            "van maandag tot en met vrijdag"
        ),
        "every weekend": "elk weekend/ieder weekend/in de weekends",
        "every morning": "elke ochtend/elke morgen",
        "every afternoon": "elke middag",
        "every evening": "elke avond",
        "every night": "elke nacht",
        "every 30 minutes": "elk half uur/ieder half uur",
        "every week": "wekelijks",
        "every other day": "om de dag",
        "every other monday": "om de maandag",
        "every other tuesday": "om de dinsdag",
        "every other wednesday": "om de woensdag",
        "every other thursday": "om de donderdag",
        "every other friday": "om de vrijdag",
        "every other saturday": "om de zaterdag",
        "every other sunday": "om de zondag",
        "every 2 weeks": "om de week",
        "every month": "maandelijks",
        "every 3 months": "elk kwartaal/ieder kwartaal",
        "every 6 months": "elk half jaar/ieder half jaar",
        "every year": "jaarlijks/elk jaar",
        "twice a day": "twee keer per dag/tweemaal per dag/2 keer per dag",
        "three times a day": "drie keer per dag/driemaal per dag/3 keer per dag",
        "twice a week": "twee keer per week/tweemaal per week",
    },
    hours="h, u, uur",
    idioms={"acht dagen": ("8 days", "1 week")},
)
