"""The everyday words for times in six languages, each with the English word of the same meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class EverydayWords:
    """The words of one language: lists of words with commas between, in the order of the English ones.

    `ago` stands before a length of time, or behind it. `hours` may stand after a time of day as well (`9 heures`);
    `oclock` is no length of time. `numbers` go from 1 to 12. `idioms` count both the day that they begin and the one
    that they end on, or not.
    """

    into: str
    ago: str
    at: str
    articles: str
    following: str
    weekdays: str
    months: str
    numbers: str
    units: Mapping[str, str]
    days: Mapping[str, str]
    parts: Mapping[str, str]
    times: Mapping[str, str]
    lengths: Mapping[str, str]
    hours: str = "h"
    oclock: str = ""
    idioms: Mapping[str, tuple[str, str]] = field(default_factory=dict)


EVERYDAY: Final[Mapping[str, EverydayWords]] = {
    "German": EverydayWords(
        into="in",
        ago="vor",
        at="um",
        articles="am, den, der, dem",
        following="nächsten, nächster, nächste, kommenden, kommender",
        weekdays="montag, dienstag, mittwoch, donnerstag, freitag, samstag/sonnabend, sonntag",
        months="januar, februar, märz, april, mai, juni, juli, august, september, oktober, november, dezember",
        numbers="ein/eine/einer/einem, zwei, drei, vier, fünf, sechs, sieben, acht, neun, zehn, elf, zwölf",
        units={
            "minutes": "minute/minuten",
            "hours": "stunde/stunden",
            "days": "tag/tagen/tage",
            "weeks": "woche/wochen",
            "months": "monat/monaten",
        },
        days={
            "today": "heute",
            "tomorrow": "morgen",
            "day after tomorrow": "übermorgen",
            "this morning": "heute früh/heute morgen/heute vormittag",
            "this afternoon": "heute nachmittag",
            "this evening": "heute abend",
            "next week": "nächste woche/kommende woche",
            "next month": "nächsten monat",
            "yesterday": "gestern",
            "this week": "diese woche",
            "last week": "letzte woche/vorige woche",
            "last month": "letzten monat",
        },
        parts={"morning": "früh/vormittag", "afternoon": "nachmittag", "evening": "abend"},
        times={"noon": "mittag/mittags", "midnight": "mitternacht"},
        lengths={"30 minutes": "einer halben stunde", "15 minutes": "einer viertelstunde"},
        oclock="uhr",
        idioms={"acht tagen": ("in 8 days", "in 1 week")},
    ),
    "French": EverydayWords(
        into="dans",
        ago="il y a",
        at="à",
        articles="le, ce",
        following="prochain, prochaine",
        weekdays="lundi, mardi, mercredi, jeudi, vendredi, samedi, dimanche",
        months="janvier, février, mars, avril, mai, juin, juillet, août, septembre, octobre, novembre, décembre",
        numbers="un/une, deux, trois, quatre, cinq, six, sept, huit, neuf, dix, onze, douze",
        units={
            "minutes": "minute/minutes",
            "days": "jour/jours",
            "weeks": "semaine/semaines",
            "months": "mois",
        },
        days={
            "today": "aujourd'hui",
            "tomorrow": "demain",
            "day after tomorrow": "après-demain/après demain",
            "this morning": "ce matin",
            "this afternoon": "cet après-midi/cet après midi",
            "this evening": "ce soir",
            "next week": "la semaine prochaine",
            "next month": "le mois prochain",
            "yesterday": "hier",
            "this week": "cette semaine",
            "last week": "la semaine dernière/la semaine passée",
            "last month": "le mois dernier",
        },
        parts={
            "morning": "matin/du matin",
            "afternoon": "après-midi/après midi/de l'après-midi",
            "evening": "soir/du soir",
        },
        times={"noon": "midi", "midnight": "minuit"},
        lengths={"30 minutes": "une demi-heure/une demi heure", "15 minutes": "un quart d'heure"},
        hours="h, heure/heures",
        idioms={"huit jours": ("in 8 days", "in 1 week"), "quinze jours": ("in 15 days", "in 2 weeks")},
    ),
    "Spanish": EverydayWords(
        into="en, dentro de",
        ago="hace",
        at="a las, a la",
        articles="el, de, del",
        following="próximo, que viene",
        weekdays="lunes, martes, miércoles, jueves, viernes, sábado, domingo",
        months="enero, febrero, marzo, abril, mayo, junio, julio, agosto, septiembre, octubre, noviembre, diciembre",
        numbers="un/una, dos, tres, cuatro, cinco, seis, siete, ocho, nueve, diez, once, doce",
        units={
            "minutes": "minuto/minutos",
            "days": "día/días",
            "weeks": "semana/semanas",
            "months": "mes/meses",
        },
        days={
            "today": "hoy",
            "tomorrow": "mañana",
            "day after tomorrow": "pasado mañana",
            "this morning": "esta mañana",
            "this afternoon": "esta tarde",
            "tonight": "esta noche",
            "next week": "la próxima semana/la semana que viene/la semana próxima",
            "next month": "el próximo mes/el mes que viene",
            "yesterday": "ayer",
            "this week": "esta semana",
            "last week": "la semana pasada",
            "last month": "el mes pasado",
        },
        parts={
            "morning": "por la mañana/de la mañana",
            "afternoon": "por la tarde/de la tarde",
            "night": "por la noche/de la noche",
        },
        times={"noon": "mediodía/al mediodía", "midnight": "medianoche"},
        lengths={"30 minutes": "media hora", "15 minutes": "un cuarto de hora"},
        hours="h, hora/horas",
        idioms={"ocho días": ("in 8 days", "in 1 week"), "quince días": ("in 15 days", "in 2 weeks")},
    ),
    "Italian": EverydayWords(
        into="tra, fra",
        ago="fa",
        at="alle, alle ore",
        articles="il, di",
        following="prossimo, prossima",
        weekdays="lunedì, martedì, mercoledì, giovedì, venerdì, sabato, domenica",
        months=(
            "gennaio, febbraio, marzo, aprile, maggio, giugno, luglio, agosto, settembre, ottobre, novembre, dicembre"
        ),
        numbers="un/una, due, tre, quattro, cinque, sei, sette, otto, nove, dieci, undici, dodici",
        units={
            "minutes": "minuto/minuti",
            "hours": "ora/ore",
            "days": "giorno/giorni",
            "weeks": "settimana/settimane",
            "months": "mese/mesi",
        },
        days={
            "today": "oggi",
            "tomorrow": "domani",
            "day after tomorrow": "dopodomani",
            "this morning": "stamattina/questa mattina",
            "this afternoon": "oggi pomeriggio/questo pomeriggio",
            "this evening": "stasera/questa sera",
            "next week": "la settimana prossima/la prossima settimana",
            "next month": "il mese prossimo/il prossimo mese",
            "yesterday": "ieri",
            "this week": "questa settimana",
            "last week": "la settimana scorsa/la scorsa settimana",
            "last month": "il mese scorso",
        },
        parts={
            "morning": "mattina/di mattina/del mattino",
            "afternoon": "pomeriggio/del pomeriggio",
            "evening": "sera/di sera",
        },
        times={"noon": "mezzogiorno/a mezzogiorno", "midnight": "mezzanotte/a mezzanotte"},
        lengths={"30 minutes": "mezz'ora/mezzora", "15 minutes": "un quarto d'ora", "1 hour": "un'ora"},
        idioms={"otto giorni": ("in 8 days", "in 1 week"), "quindici giorni": ("in 15 days", "in 2 weeks")},
    ),
    "Portuguese": EverydayWords(
        into="em, daqui a, dentro de",
        ago="há, atrás",
        at="às, à",
        articles="na, no, de",
        following="próxima, próximo, que vem",
        weekdays=(
            "segunda-feira/segunda, terça-feira/terça, quarta-feira/quarta, quinta-feira/quinta, sexta-feira/sexta, "
            "sábado, domingo"
        ),
        months="janeiro, fevereiro, março, abril, maio, junho, julho, agosto, setembro, outubro, novembro, dezembro",
        numbers="um/uma, dois/duas, três, quatro, cinco, seis, sete, oito, nove, dez, onze, doze",
        units={
            "minutes": "minuto/minutos",
            "days": "dia/dias",
            "weeks": "semana/semanas",
            "months": "mês/meses",
        },
        days={
            "today": "hoje",
            "tomorrow": "amanhã",
            "day after tomorrow": "depois de amanhã",
            "this morning": "hoje de manhã",
            "this afternoon": "hoje à tarde/esta tarde",
            "tonight": "hoje à noite/esta noite",
            "next week": "na próxima semana/a próxima semana/semana que vem",
            "next month": "no próximo mês/mês que vem",
            "yesterday": "ontem",
            "this week": "esta semana",
            "last week": "na semana passada/a semana passada/semana passada",
            "last month": "no mês passado/mês passado",
        },
        parts={
            "morning": "de manhã/da manhã/pela manhã",
            "afternoon": "à tarde/da tarde",
            "night": "à noite/da noite",
        },
        times={"noon": "meio-dia/ao meio-dia", "midnight": "meia-noite"},
        lengths={"30 minutes": "meia hora", "15 minutes": "um quarto de hora"},
        hours="h, hora/horas",
        idioms={"oito dias": ("in 8 days", "in 1 week"), "quinze dias": ("in 15 days", "in 2 weeks")},
    ),
    "Dutch": EverydayWords(
        into="over",
        ago="geleden",
        at="om",
        articles="op, de",
        following="volgende, aanstaande, komende",
        weekdays="maandag, dinsdag, woensdag, donderdag, vrijdag, zaterdag, zondag",
        months="januari, februari, maart, april, mei, juni, juli, augustus, september, oktober, november, december",
        numbers="een/één, twee, drie, vier, vijf, zes, zeven, acht, negen, tien, elf, twaalf",
        units={
            "minutes": "minuut/minuten",
            "days": "dag/dagen",
            "weeks": "week/weken",
            "months": "maand/maanden",
        },
        days={
            "today": "vandaag",
            "tomorrow": "morgen",
            "day after tomorrow": "overmorgen",
            "tomorrow morning": "morgenochtend/morgenvroeg",
            "tomorrow afternoon": "morgenmiddag",
            "tomorrow evening": "morgenavond",
            "this morning": "vanochtend/vanmorgen",
            "this afternoon": "vanmiddag",
            "this evening": "vanavond",
            "next week": "volgende week",
            "next month": "volgende maand",
            "yesterday": "gisteren",
            "this week": "deze week",
            "last week": "vorige week/afgelopen week",
            "last month": "vorige maand/afgelopen maand",
        },
        parts={
            "morning": "ochtend/'s ochtends/'s morgens",
            "afternoon": "'s middags",
            "evening": "avond/'s avonds",
        },
        times={"midnight": "middernacht"},
        lengths={"30 minutes": "een half uur/half uur", "15 minutes": "een kwartier/kwartier", "1 hour": "een uur"},
        hours="h, u, uur",
        idioms={"acht dagen": ("in 8 days", "in 1 week")},
    ),
}
