"""Italian: `domani alle nove e mezza`, `questo fine settimana`, `ogni primo lunedì del mese`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

ITALIAN: Final = Language(
    into="tra, fra",
    ago="fa",
    at="alle, alle ore, verso le",
    articles="il, di, la, della, del",
    following="prossimo, prossima",
    weekdays="lunedì, martedì, mercoledì, giovedì, venerdì, sabato, domenica",
    months="gennaio, febbraio, marzo, aprile, maggio, giugno, luglio, agosto, settembre, ottobre, novembre, dicembre",
    numbers=(
        "un/una, due, tre, quattro, cinque, sei, sette, otto, nove, dieci, undici, dodici, tredici, quattordici, "
        "quindici, sedici, diciassette, diciotto, diciannove, venti"
    ),
    more_numbers={"30": "trenta", "40": "quaranta", "45": "quarantacinque", "60": "sessanta", "90": "novanta"},
    units={
        "minutes": "minuto/minuti/min",
        "hours": "ora/ore",
        "days": "giorno/giorni",
        "weeks": "settimana/settimane",
        "months": "mese/mesi",
    },
    days={
        "now": "adesso/subito/immediatamente",
        "today": "oggi",
        "tomorrow": "domani",
        "day after tomorrow": "dopodomani",
        "this morning": "stamattina/questa mattina/stamani",
        "this afternoon": "oggi pomeriggio/questo pomeriggio",
        "this evening": "stasera/questa sera",
        "next month": "il mese prossimo/il prossimo mese",
        "this weekend": (
            "questo fine settimana/nel fine settimana/il fine settimana/questo weekend/nel weekend/nel week-end"
        ),
        "next weekend": "il prossimo fine settimana/il fine settimana prossimo/il prossimo weekend",
        "start of week": "inizio settimana/a inizio settimana/all'inizio della settimana",
        "mid week": "metà settimana/a metà settimana",
        "end of week": "fine della settimana/la fine della settimana/alla fine della settimana",
        "end of month": "fine mese/a fine mese/fine del mese/la fine del mese/alla fine del mese",
        "end of next month": "alla fine del prossimo mese/alla fine del mese prossimo/fine del prossimo mese",
        "end of year": "fine anno/a fine anno/alla fine dell'anno",
        "start of next week": "all'inizio della prossima settimana/inizio della prossima settimana",
        "start of next month": "all'inizio del prossimo mese/inizio del prossimo mese/all'inizio del mese prossimo",
        "christmas eve": "la vigilia di natale/alla vigilia di natale/vigilia di natale",
        "christmas day": "natale/a natale/il giorno di natale",
        "new years eve": "san silvestro/l'ultimo dell'anno",
        "new years day": "capodanno/a capodanno",
        "yesterday": "ieri",
        "this week": "questa settimana",
        "last week": "la settimana scorsa/la scorsa settimana",
        "last month": "il mese scorso",
    },
    parts={
        "morning": "mattina/di mattina/del mattino",
        "afternoon": "pomeriggio/del pomeriggio",
        "evening": "sera/di sera",
        "night": "di notte",
    },
    times={
        "noon": "mezzogiorno/a mezzogiorno",
        "midnight": "mezzanotte/a mezzanotte",
        "1:00": "all'una",
        "the same time": "la stessa ora/alla stessa ora",
    },
    occasions={
        "lunch": "a pranzo/per pranzo/all'ora di pranzo/durante il pranzo",
        "before lunch": "prima di pranzo",
        "after lunch": "dopo pranzo/dopo il pranzo",
        "dinner": "a cena/per cena/all'ora di cena",
        "after dinner": "dopo cena",
        "breakfast": "a colazione/per colazione",
        "after work": "dopo il lavoro/dopo lavoro",
    },
    lengths={
        "30 minutes": "mezz'ora/mezzora",
        "15 minutes": "un quarto d'ora",
        "45 minutes": "tre quarti d'ora",
        "1 hour": "un'ora",
        "90 minutes": "un'ora e mezza/un'ora e mezzo",
    },
    after_hour={"30": "e mezza/e mezzo", "15": "e un quarto", "-15": "meno un quarto"},
    by="entro il, entro le, entro la, fino a, fino al, non oltre",
    before="prima di, prima del, prima della, prima dell', prima delle",
    within="entro le prossime, in meno di",
    limit={"within": "entro"},
    edges={
        "end of": "fine/a fine/alla fine di",
        "start of": "inizio/a inizio/all'inizio di",
        "mid": "metà/a metà",
    },
    late="stanotte/questa notte",
    next_week="la settimana prossima/la prossima settimana/della prossima settimana/della settimana prossima",
    every="ogni/tutti i/tutte le",
    conjunction="e",
    adds_minutes=True,
    plural_weekdays=("i lunedì, i martedì, i mercoledì, i giovedì, i venerdì, sabati/i sabati, domeniche/le domeniche"),
    monthly="di ogni mese/ogni mese",
    of_month="del mese",
    ordinals="primo/prima/primi, secondo/seconda, terzo/terza, quarto/quarta, ultimo/ultima/l'ultimo/l'ultima",
    exceptions="tranne, tranne il, tranne la, eccetto, eccetto il, eccetto la, salvo",
    holidays="festivi/i festivi/giorni festivi/i giorni festivi",
    rules={
        "around the clock": "24 ore su 24/giorno e notte",
        "every day": "giornalmente/quotidianamente",
        "every weekday": (
            "nei giorni feriali/dal lunedì al venerdì/ogni giorno feriale/tutti i giorni feriali/"
            "ogni giorno lavorativo/tutti i giorni lavorativi/nei giorni lavorativi"
        ),
        "every weekend": "ogni fine settimana/tutti i fine settimana/ogni weekend/tutti i weekend",
        "every morning": "ogni mattina/tutte le mattine",
        "every afternoon": "ogni pomeriggio/tutti i pomeriggi",
        "every evening": "ogni sera/tutte le sere",
        "every night": "ogni notte/tutte le notti",
        "every 30 minutes": "ogni mezz'ora/ogni mezzora",
        "every week": "settimanalmente",
        "every other day": "un giorno sì e uno no/a giorni alterni",
        "every month": "mensilmente",
        "every 3 months": "ogni trimestre/trimestralmente",
        "every 6 months": "ogni semestre/semestralmente",
        "every year": "ogni anno/tutti gli anni",
        "twice a day": "due volte al giorno/2 volte al giorno",
        "three times a day": "tre volte al giorno/3 volte al giorno",
        "twice a week": "due volte a settimana/due volte alla settimana",
    },
    alternate="sì e uno no/sì e un no/alternati/sì, uno no/sì e una no",
    every_other="{} sì, {} no/{} sì {} no/{} sì e {} no",
    idioms={
        "otto giorni": ("8 days", "1 week"),
        "8 giorni": ("8 days", "1 week"),
        "quindici giorni": ("15 days", "2 weeks"),
        "15 giorni": ("15 days", "2 weeks"),
    },
)
