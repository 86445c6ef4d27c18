"""Portuguese: `amanhã às nove e meia`, `este fim de semana`, `a primeira segunda do mês`."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.rules.time.languages.language import Language

PORTUGUESE: Final = Language(
    into="em, daqui a, dentro de",
    ago="há, atrás",
    at="às, à, por volta das",
    articles="na, no, de, a, o, da, do",
    following="próxima, próximo, que vem",
    weekdays=(
        "segunda-feira/segunda, terça-feira/terça, quarta-feira/quarta, quinta-feira/quinta, sexta-feira/sexta, "
        "sábado, domingo"
    ),
    months="janeiro, fevereiro, março, abril, maio, junho, julho, agosto, setembro, outubro, novembro, dezembro",
    numbers=(
        "um/uma, dois/duas, três, quatro, cinco, seis, sete, oito, nove, dez, onze, doze, treze, catorze/quatorze, "
        "quinze, dezesseis/dezasseis, dezessete/dezassete, dezoito, dezenove/dezanove, vinte"
    ),
    more_numbers={"30": "trinta", "40": "quarenta", "45": "quarenta e cinco", "60": "sessenta", "90": "noventa"},
    units={
        "minutes": "minuto/minutos/min",
        "days": "dia/dias",
        "weeks": "semana/semanas",
        "months": "mês/meses",
    },
    days={
        "now": "agora/agora mesmo/já/imediatamente",
        "today": "hoje",
        "tomorrow": "amanhã",
        "day after tomorrow": "depois de amanhã",
        "this morning": "hoje de manhã",
        "this afternoon": "hoje à tarde/esta tarde",
        "tonight": "hoje à noite/esta noite",
        "next month": "no próximo mês/mês que vem/no mês que vem",
        "this weekend": "este fim de semana/neste fim de semana/no fim de semana/fim de semana",
        "next weekend": "no próximo fim de semana/próximo fim de semana/fim de semana que vem",
        "end of day": "fim do dia/no fim do dia/o fim do dia/no final do dia/final do dia",
        "start of week": "início da semana/no início da semana/no começo da semana",
        "mid week": "meio da semana/no meio da semana/a meio da semana",
        "end of week": "fim da semana/no fim da semana/o fim da semana/no final da semana/final da semana",
        "end of month": "fim do mês/no fim do mês/o fim do mês/no final do mês/final do mês/o final do mês",
        "end of next month": "fim do próximo mês/no fim do próximo mês/no final do próximo mês",
        "end of year": "fim do ano/no fim do ano/no final do ano/final do ano",
        "start of next week": "no início da próxima semana/início da próxima semana/no começo da próxima semana",
        "start of next month": "no início do próximo mês/início do próximo mês/no começo do próximo mês",
        "christmas eve": "véspera de natal/na véspera de natal",
        "christmas day": "natal/no natal/no dia de natal",
        "new years eve": "véspera de ano novo/na véspera de ano novo/réveillon",
        "new years day": "ano novo/no dia de ano novo",
        "yesterday": "ontem",
        "this week": "esta semana",
        "this month": "este mês/neste mês/esse mês",
        "this year": "este ano/neste ano",
        "last week": "na semana passada/a semana passada/semana passada",
        "last month": "no mês passado/mês passado",
    },
    parts={
        "morning": "de manhã/da manhã/pela manhã/da madrugada/de madrugada",
        "afternoon": "à tarde/da tarde",
        "night": "à noite/da noite",
    },
    times={
        "noon": "meio-dia/ao meio-dia/meio dia/ao meio dia",
        "midnight": "meia-noite/à meia-noite/meia noite/à meia noite",
        "the same time": "mesma hora/à mesma hora/na mesma hora",
    },
    occasions={
        "lunch": "no almoço/na hora do almoço/ao almoço/à hora do almoço",
        "before lunch": "antes do almoço",
        "after lunch": "depois do almoço/após o almoço",
        "dinner": "no jantar/na hora do jantar/ao jantar",
        "after dinner": "depois do jantar",
        "breakfast": "no café da manhã/ao pequeno-almoço",
        "after work": "depois do trabalho/após o trabalho",
    },
    lengths={
        "30 minutes": "meia hora",
        "15 minutes": "um quarto de hora",
        "45 minutes": "três quartos de hora",
        "90 minutes": "hora e meia/uma hora e meia",
    },
    after_hour={"30": "e meia", "15": "e um quarto/e quinze"},
    by="até, até a, até o, até às, até as, no máximo até",
    before="antes de, antes do, antes da",
    before_clock="antes das",
    within="em até, em menos de, nas próximas",
    limit={},
    edges={
        "end of": "fim de/no fim de/final de/no final de",
        "start of": "início de/no início de/começo de/no começo de",
        "mid": "meados de/em meados de",
    },
    late="",
    next_week="na próxima semana/a próxima semana/semana que vem/na semana que vem/da próxima semana/da semana que vem",
    every="todo/toda/todos os/todas as/a cada/cada",
    afterwards={"afterwards": "depois", "later": "mais tarde"},
    between="entre as/entre",
    window_from="das/desde as",
    window_to="e as",
    conjunction="e",
    adds_minutes=True,
    plural_weekdays=(
        "segundas-feiras/segundas/às segundas, terças-feiras/terças/às terças, quartas-feiras/quartas/às quartas, "
        "quintas-feiras/quintas/às quintas, sextas-feiras/sextas/às sextas, sábados/aos sábados, domingos/aos domingos"
    ),
    monthly="de cada mês/de todo mês/de todos os meses/de todo o mês",
    of_month="do mês",
    ordinals="primeiro/primeira/primeiras, segundo, terceiro/terceira, quarto, último/última/últimas",
    exceptions="exceto, exceto no, exceto na, menos, menos no, menos na, salvo, fora",
    holidays="feriados/nos feriados/em feriados",
    rules={
        "around the clock": "24 horas por dia/dia e noite",
        "every day": "diariamente",
        "every weekday": (
            "nos dias úteis/todos os dias úteis/todo dia útil/em dias úteis/de segunda a sexta/"
            "de segunda a sexta-feira/de segunda-feira a sexta-feira"
        ),
        "every weekend": "todo fim de semana/todos os fins de semana/nos fins de semana/aos fins de semana",
        "every morning": "toda manhã/todas as manhãs",
        "every afternoon": "toda tarde/todas as tardes",
        "every night": "toda noite/todas as noites",
        "every 30 minutes": "a cada meia hora/cada meia hora",
        "every week": "semanalmente",
        "every other day": "dia sim, dia não/dia sim dia não/um dia sim e outro não/em dias alternados",
        "every month": "mensalmente/todos os meses/todo mês",
        "every 3 months": "trimestralmente/a cada trimestre/todo trimestre",
        "every 6 months": "semestralmente/a cada semestre",
        "every year": "todo ano/todos os anos",
        "twice a day": "duas vezes por dia/duas vezes ao dia/2 vezes por dia/2 vezes ao dia",
        "three times a day": "três vezes por dia/três vezes ao dia/3 vezes por dia/3 vezes ao dia",
        "twice a week": "duas vezes por semana/2 vezes por semana",
    },
    alternate="sim e outra não/sim e outro não/sim, outra não/sim, outro não/alternadas/alternados",
    every_other="{} sim, {} não/{} sim {} não/{} sim e {} não",
    hours="h, hora/horas",
    idioms={
        "oito dias": ("8 days", "1 week"),
        "8 dias": ("8 days", "1 week"),
        "quinze dias": ("15 days", "2 weeks"),
        "15 dias": ("15 days", "2 weeks"),
    },
)
