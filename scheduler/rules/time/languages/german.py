"""German: `morgen um halb neun`, `am Wochenende`, `jeden zweiten Dienstag im Monat`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

GERMAN: Final = Language(
    into="in",
    ago="vor",
    at="um, gegen",
    articles="am, den, der, dem, das, an",
    following="nächsten, nächster, nächste, nächstes, kommenden, kommender",
    weekdays="montag, dienstag, mittwoch, donnerstag, freitag, samstag/sonnabend, sonntag",
    months="januar/jänner, februar, märz, april, mai, juni, juli, august, september, oktober, november, dezember",
    numbers=(
        "ein/eine/einer/einem/eins, zwei, drei, vier, fünf, sechs, sieben, acht, neun, zehn, elf, zwölf, dreizehn, "
        "vierzehn, fünfzehn, sechzehn, siebzehn, achtzehn, neunzehn, zwanzig"
    ),
    more_numbers={"30": "dreißig", "40": "vierzig", "45": "fünfundvierzig", "60": "sechzig", "90": "neunzig"},
    units={
        "minutes": "minute/minuten/min",
        "hours": "stunde/stunden/std",
        "days": "tag/tagen/tage",
        "weeks": "woche/wochen",
        "months": "monat/monaten/monate",
    },
    days={
        "now": "jetzt/sofort/jetzt gleich",
        "today": "heute",
        "tomorrow": "morgen",
        "day after tomorrow": "übermorgen",
        "this morning": "heute früh/heute morgen/heute vormittag",
        "this afternoon": "heute nachmittag",
        "this evening": "heute abend",
        "next month": "nächsten monat",
        "this weekend": "am wochenende/dieses wochenende/das wochenende/an diesem wochenende/wochenende",
        "next weekend": "nächstes wochenende/am nächsten wochenende/kommendes wochenende/am kommenden wochenende",
        "start of week": "anfang der woche/am anfang der woche",
        "mid week": "mitte der woche/in der mitte der woche/mitten in der woche",
        "end of week": "ende der woche/am ende der woche/ende dieser woche",
        "end of next week": "ende nächster woche/ende der nächsten woche",
        "end of month": "ende des monats/am ende des monats/monatsende/am monatsende/zum monatsende/ende dieses monats",
        "end of next month": "ende nächsten monats/ende des nächsten monats/am ende des nächsten monats",
        "end of year": "ende des jahres/am ende des jahres/jahresende/am jahresende",
        "start of next week": "anfang nächster woche/anfang der nächsten woche",
        "start of next month": "anfang nächsten monats/anfang des nächsten monats",
        "christmas day": "weihnachten/an weihnachten",
        "christmas eve": "heiligabend/an heiligabend/heilig abend",
        "new years eve": "silvester/an silvester",
        "new years day": "neujahr/an neujahr",
        "yesterday": "gestern",
        "this week": "diese woche",
        "last week": "letzte woche/vorige woche",
        "last month": "letzten monat",
    },
    parts={"morning": "früh/vormittag", "afternoon": "nachmittag", "evening": "abend"},
    habits={
        "morning": "morgens/vormittags",
        "afternoon": "nachmittags",
        "evening": "abends",
        "night": "nachts",
    },
    times={
        "noon": "mittag/mittags/12 uhr mittags/zwölf uhr mittags",
        "midnight": "mitternacht",
        "the same time": "dieselbe zeit/dieselbe uhrzeit/die gleiche zeit/zur selben zeit/zur gleichen zeit",
    },
    occasions={
        "lunch": "zum mittagessen/beim mittagessen",
        "before lunch": "vor dem mittagessen/vor dem essen",
        "after lunch": "nach dem mittagessen/nach dem essen",
        "dinner": "zum abendessen/beim abendessen",
        "after dinner": "nach dem abendessen",
        "breakfast": "zum frühstück/beim frühstück",
        "after breakfast": "nach dem frühstück",
        "before work": "vor der arbeit",
        "after work": "nach der arbeit/nach feierabend/zum feierabend",
    },
    lengths={
        "30 minutes": "einer halben stunde/eine halbe stunde",
        "15 minutes": "einer viertelstunde/eine viertelstunde",
        "45 minutes": "einer dreiviertelstunde/eine dreiviertelstunde",
        "90 minutes": "anderthalb stunden/eineinhalb stunden",
        "150 minutes": "zweieinhalb stunden",
    },
    before_hour={"-30": "halb", "15": "viertel nach", "-15": "viertel vor"},
    compounds={
        "morning": "morgen/vormittag/früh",
        "noon": "mittag",
        "afternoon": "nachmittag",
        "evening": "abend",
    },
    by="bis, bis zum, bis zur, spätestens, spätestens am, bis spätestens",
    before="vor, vor dem, vor der",
    within="innerhalb von, binnen, innerhalb der nächsten",
    limit={},
    edges={"end of": "ende", "start of": "anfang", "mid": "mitte"},
    late="heute nacht",
    next_week="nächste woche/nächster woche/kommende woche/kommender woche/der nächsten woche",
    every="jeden/jede/jedes/alle",
    conjunction="und",
    plural_weekdays="montags, dienstags, mittwochs, donnerstags, freitags, samstags/sonnabends, sonntags",
    monthly="jedes monats/jeden monats/jeden monat/eines monats/eines jeden monats",
    of_month="im monat/des monats",
    ordinals=(
        "ersten/erste/erster/erstes, zweiten/zweite/zweiter/zweites, dritten/dritte/dritter, vierten/vierte/vierter, "
        "letzten/letzte/letzter"
    ),
    exceptions="außer, außer an, außer am, ausser, nur nicht, aber nicht",
    holidays="feiertags/feiertagen/an feiertagen/feiertage",
    rules={
        "around the clock": "rund um die uhr/tag und nacht",
        "every day": "täglich",
        "every weekday": (
            "werktags/jeden werktag/an werktagen/an jedem werktag/montag bis freitag/von montag bis freitag/"
            "montags bis freitags/mo-fr/wochentags/unter der woche"
        ),
        "every weekend": "jedes wochenende/an wochenenden/an jedem wochenende",
        "every morning": "jeden morgen/jeden vormittag",
        "every afternoon": "jeden nachmittag",
        "every evening": "jeden abend",
        "every night": "jede nacht",
        "every hour": "stündlich",
        "every 30 minutes": "halbstündlich/alle halbe stunde/alle halben stunden/jede halbe stunde",
        "every week": "wöchentlich",
        "every 2 weeks": "vierzehntäglich/14-täglich/alle vierzehn tage",
        "every month": "monatlich",
        "every 3 months": "vierteljährlich/jedes quartal/quartalsweise",
        "every 6 months": "halbjährlich/jedes halbe jahr",
        "every year": "jährlich/jedes jahr",
        "twice a day": "zweimal täglich/zweimal am tag/2 mal am tag/2x täglich",
        "three times a day": "dreimal täglich/dreimal am tag/3 mal am tag/3x täglich",
        "twice a week": "zweimal pro woche/zweimal die woche/zweimal in der woche",
    },
    oclock="uhr",
    idioms={"acht tagen": ("8 days", "1 week")},
)
