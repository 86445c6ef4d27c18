"""Spanish: `mañana a las nueve y media`, `este fin de semana`, `el primer lunes de cada mes`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

SPANISH: Final = Language(
    into="en, dentro de",
    ago="hace",
    at="a las, a la",
    articles="el, la, de, del",
    following="próximo, próxima, que viene",
    weekdays="lunes, martes, miércoles, jueves, viernes, sábado, domingo",
    months="enero, febrero, marzo, abril, mayo, junio, julio, agosto, septiembre, octubre, noviembre, diciembre",
    numbers=(
        "un/una, dos, tres, cuatro, cinco, seis, siete, ocho, nueve, diez, once, doce, trece, catorce, quince, "
        "dieciséis, diecisiete, dieciocho, diecinueve, veinte"
    ),
    more_numbers={"30": "treinta", "40": "cuarenta", "45": "cuarenta y cinco", "60": "sesenta", "90": "noventa"},
    units={
        "minutes": "minuto/minutos/min",
        "days": "día/días",
        "weeks": "semana/semanas",
        "months": "mes/meses",
    },
    days={
        "now": "ahora/ahora mismo/inmediatamente/de inmediato",
        "today": "hoy",
        "tomorrow": "mañana",
        "day after tomorrow": "pasado mañana",
        "this morning": "esta mañana",
        "this afternoon": "esta tarde",
        "tonight": "esta noche",
        "next month": "el próximo mes/el mes que viene",
        "this weekend": "este fin de semana/el fin de semana/en el fin de semana",
        "next weekend": "el próximo fin de semana/el fin de semana que viene",
        "end of day": "fin del día/final del día/al final del día",
        "start of week": "principio de semana/a principio de semana/a principios de semana",
        "mid week": "mitad de semana/a mitad de semana/a mediados de semana",
        "end of week": "final de la semana/a final de la semana/al final de la semana/a finales de semana",
        "end of month": (
            "fin de mes/a fin de mes/final de mes/a final de mes/finales de mes/a finales de mes/al final del mes/"
            "final del mes/el final del mes"
        ),
        "end of next month": "a finales del próximo mes/a final del próximo mes/al final del próximo mes",
        "end of year": "fin de año/a fin de año/a final de año/a finales de año/al final del año",
        "start of next week": "a principios de la próxima semana/al principio de la próxima semana",
        "start of next month": "a principios del próximo mes/al principio del próximo mes",
        "christmas eve": "nochebuena/en nochebuena",
        "christmas day": "navidad/el día de navidad",
        "new years eve": "nochevieja/en nochevieja",
        "new years day": "año nuevo/el día de año nuevo",
        "yesterday": "ayer",
        "this week": "esta semana",
        "this month": "este mes",
        "this year": "este año",
        "last week": "la semana pasada",
        "last month": "el mes pasado",
    },
    parts={
        "morning": "por la mañana/de la mañana/de la madrugada/de madrugada",
        "afternoon": "por la tarde/de la tarde",
        "night": "por la noche/de la noche",
    },
    times={
        "noon": "mediodía/al mediodía/a mediodía",
        "midnight": "medianoche/a medianoche/a la medianoche",
        "the same time": "la misma hora/a la misma hora",
        "first thing": "a primera hora",
    },
    occasions={
        "lunch": "en el almuerzo/a la hora de comer/a la hora del almuerzo/durante el almuerzo",
        "before lunch": "antes de comer/antes del almuerzo",
        "after lunch": "después de comer/después del almuerzo/tras la comida",
        "dinner": "en la cena/a la hora de cenar/a la hora de la cena",
        "after dinner": "después de cenar/después de la cena",
        "breakfast": "en el desayuno/a la hora del desayuno",
        "after work": "después del trabajo/después de trabajar",
    },
    lengths={
        "30 minutes": "media hora",
        "15 minutes": "un cuarto de hora",
        "45 minutes": "tres cuartos de hora",
        "90 minutes": "hora y media/una hora y media",
    },
    after_hour={"30": "y media", "15": "y cuarto", "-15": "menos cuarto"},
    by="para, para el, hasta, hasta el, a más tardar, a más tardar el",
    before="antes de, antes del, antes de la",
    before_clock="antes de las",
    within="en menos de, en las próximas, dentro de las próximas",
    limit={},
    edges={
        "end of": "fin de/finales de/a finales de/a final de",
        "start of": "principios de/a principios de/a comienzos de",
        "mid": "mediados de/a mediados de",
    },
    late="",
    next_week="la próxima semana/la semana que viene/la semana próxima/próxima semana",
    every="cada/todos los/todas las",
    afterwards={"afterwards": "después", "later": "más tarde"},
    between="entre/entre las/entre la",
    window_from="de las/desde las",
    window_to="a/y las",
    conjunction="y",
    adds_minutes=True,
    plural_weekdays=(
        "los lunes, los martes, los miércoles, los jueves, los viernes, sábados/los sábados, domingos/los domingos"
    ),
    monthly="de cada mes/cada mes/de todos los meses",
    of_month="del mes/de mes",
    ordinals="primer/primero/primera, segundo/segunda, tercer/tercero/tercera, cuarto/cuarta, último/última",
    exceptions="excepto, excepto el, salvo, salvo el, menos, menos el",
    holidays="festivos/los festivos/días festivos/los días festivos/feriados/los feriados",
    rules={
        "around the clock": "las 24 horas/las 24 horas del día/día y noche",
        "every day": "diariamente/a diario",
        "every weekday": (
            "entre semana/de lunes a viernes/cada día laborable/todos los días laborables/cada día hábil/"
            "todos los días hábiles/los días laborables/los días hábiles"
        ),
        "every weekend": "todos los fines de semana/cada fin de semana/los fines de semana",
        "every morning": "cada mañana/todas las mañanas",
        "every afternoon": "cada tarde/todas las tardes",
        "every night": "cada noche/todas las noches",
        "every 30 minutes": "cada media hora",
        "every week": "semanalmente",
        "every other day": "un día sí y otro no/un día sí y un día no/día por medio",
        "every month": "mensualmente",
        "every 3 months": "cada trimestre/trimestralmente",
        "every 6 months": "cada semestre/semestralmente",
        "every year": "cada año/todos los años",
        "twice a day": "dos veces al día/2 veces al día/dos veces por día",
        "three times a day": "tres veces al día/3 veces al día/tres veces por día",
        "twice a week": "dos veces a la semana/dos veces por semana",
    },
    alternate="sí y otro no/sí, otro no/alternos/por medio",
    every_other="{} sí, {} no/{} sí {} no/{} sí y {} no",
    hours="h, hora/horas",
    idioms={
        "ocho días": ("8 days", "1 week"),
        "8 días": ("8 days", "1 week"),
        "quince días": ("15 days", "2 weeks"),
        "15 días": ("15 days", "2 weeks"),
    },
)
