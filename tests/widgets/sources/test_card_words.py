"""A card says in the language of its reader what the server says in English: recurrences, warnings, notes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.translatable import ClauseKind, NoteKind, Translatable, of_step
from playwright.sync_api import Locator, expect

from tests.rules.recurrence.test_clauses import EVERY_KIND
from tests.widgets.chat import Chat
from tests.widgets.sample import a_task, weekly
from tests.widgets.sources.test_catalogue import ENGLISH

pytestmark = pytest.mark.browser

START = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
TUESDAYS = "every tuesday at 9:00"
FORTNIGHT = "every 2 weeks on monday and friday at 9"
LAST_FRIDAY = "last friday of every month at 17:00"
BUT_FRIDAYS = "every day at 9 except fridays until june"
WINDOW = "every 15 minutes between 9:00 and 17:00"
HOLIDAYS = "every weekday at 9 except public holidays in CA-AB"
FRIDAY_13 = "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"
THIRTEENTH_OR_FRIDAY = "0 0 13 * fri"
MIDDLE_AND_END = "every month on the 15th and the last day at 9"
QUARTERS = "every 15 minutes on monday and friday"
ONE_O_CLOCK = "every day at 1:00, 3 times"
SAID = {
    "en-US": {
        TUESDAYS: "every Tuesday at 9:00 AM",
        FORTNIGHT: "every 2 weeks on Monday and Friday at 9:00 AM",
        LAST_FRIDAY: "every month on the last Friday at 5:00 PM",
        BUT_FRIDAYS: "every day except Friday at 9:00 AM until May 31, 2027",
        WINDOW: "every day, every 15 minutes from 9:00 AM to 5:00 PM",
        HOLIDAYS: "every weekday at 9:00 AM except public holidays in Canada AB",
        FRIDAY_13: "every month on the 13th (only if it is Friday) at 10:00 AM",
        THIRTEENTH_OR_FRIDAY: "every month on the 13th or every Friday at 12:00 AM",
        MIDDLE_AND_END: "every month on the 15th and the last day at 9:00 AM",
        ONE_O_CLOCK: "every day at 1:00 AM, 3 times",
    },
    "de-DE": {
        TUESDAYS: "jeden Dienstag um 09:00 Uhr",
        FORTNIGHT: "alle 2 Wochen am Montag und Freitag um 09:00 Uhr",
        LAST_FRIDAY: "jeden Monat am letzten Freitag um 17:00 Uhr",
        BUT_FRIDAYS: "jeden Tag außer Freitag um 09:00 Uhr bis 31. Mai 2027",
        WINDOW: "jeden Tag, alle 15 Minuten von 09:00 bis 17:00 Uhr",
        HOLIDAYS: "jeden Tag von Montag bis Freitag um 09:00 Uhr außer an Feiertagen (Kanada AB)",
        FRIDAY_13: "jeden Monat am 13. (nur wenn es ein Freitag ist) um 10:00 Uhr",
        THIRTEENTH_OR_FRIDAY: "jeden Monat am 13. oder jeden Freitag um 00:00 Uhr",
        MIDDLE_AND_END: "jeden Monat am 15. und letzten Tag um 09:00 Uhr",
        ONE_O_CLOCK: "jeden Tag um 01:00 Uhr, 3-mal",
    },
    "es-ES": {
        TUESDAYS: "cada martes a las 9:00",
        FORTNIGHT: "cada 2 semanas (lunes y viernes) a las 9:00",
        LAST_FRIDAY: "cada mes el último viernes a las 17:00",
        BUT_FRIDAYS: "cada día excepto el viernes a las 9:00 hasta el 31 de mayo de 2027",
        THIRTEENTH_OR_FRIDAY: "cada mes el 13 o cada viernes a las 0:00",
        MIDDLE_AND_END: "cada mes el 15 y el último día a las 9:00",
        ONE_O_CLOCK: "cada día a la 1:00, 3 veces",
    },
    "fr-FR": {
        TUESDAYS: "chaque mardi à 09:00",
        FORTNIGHT: "toutes les 2 semaines (lundi et vendredi) à 09:00",
        LAST_FRIDAY: "chaque mois le dernier vendredi à 17:00",
        BUT_FRIDAYS: "chaque jour sauf le vendredi à 09:00 jusqu’au 31 mai 2027",
        MIDDLE_AND_END: "chaque mois le 15 et le dernier jour à 09:00",
        ONE_O_CLOCK: "chaque jour à 01:00, 3 fois",
    },
    "ja-JP": {
        TUESDAYS: "毎週火曜日 9:00",
        FORTNIGHT: "2週間ごと（月曜日、金曜日） 9:00",
        LAST_FRIDAY: "毎月の最終金曜日 17:00",
        QUARTERS: "15分ごと（月曜日、金曜日）",
        ONE_O_CLOCK: "毎日 1:00（3回）",
    },
    "ar-AE": {
        TUESDAYS: "كل يوم الثلاثاء الساعة 9:00 ص",
        FORTNIGHT: "كل أسبوعين (الاثنين والجمعة) الساعة 9:00 ص",
        LAST_FRIDAY: "كل شهر في يوم الجمعة الأخير الساعة 5:00 م",
        MIDDLE_AND_END: "كل شهر في اليوم 15 وآخر يوم الساعة 9:00 ص",
        ONE_O_CLOCK: "كل يوم الساعة 1:00 ص، 3 مرات",
    },
}  # fmt: skip


def repeating(rule: str) -> dict[str, Any]:
    """Give a task that recurs by a rule, with the words that the server sends for it."""
    found = recurrence.parse(rule, zone="America/New_York", anchor=START)
    words = [{"kind": clause.kind.value, **clause.values} for clause in found.clauses]
    return a_task(repeat={**weekly(), "rule": found.rule, "text": found.text}, words={"repeat": words})


def rule_shown(chat: Chat) -> Locator:
    return chat.card.locator("[data-key=next] span").first


def test_a_recurrence_is_said_in_the_language_of_the_reader(chat: Chat) -> None:
    for locale, sentences in SAID.items():
        chat.load("task-card", locale=locale)
        for rule, said in sentences.items():
            chat.show(repeating(rule))
            spaced = re.escape(said).replace("\\ ", r"[\s\u200f]+")
            expect(rule_shown(chat), locale).to_have_text(re.compile(rf"^{spaced}\u200f?$"))


@pytest.mark.parametrize("locale", ["en-US", "ja-JP", "ar-EG"])
def test_every_kind_of_clause_has_words(chat: Chat, locale: str) -> None:
    chat.load("task-card", locale=locale)
    seen = set()
    for number, rule in enumerate(EVERY_KIND, start=1):
        chat.show({**repeating(rule), "title": f"{number}"})
        expect(chat.card.get_by_role("heading")).to_have_text(f"{number}")
        seen.add(rule_shown(chat).text_content() or "")
    assert len(seen) == len(EVERY_KIND)
    assert [said for said in seen if re.search(r"undefined|[{}]", said)] == []


def test_a_rule_that_a_card_has_no_words_for_is_still_said_truly(chat: Chat) -> None:
    task = repeating(TUESDAYS)
    newer = {**task, "words": {"repeat": [{"kind": "every_full_moon"}]}}
    chat.show_task(newer, locale="de-DE")
    expect(chat.card.locator("[data-key=next]")).to_contain_text("nach einer eigenen Regel")
    chat.card.locator("[data-key=next]").click()
    expect(chat.card.locator("details li")).to_have_count(5)
    chat.show_task(newer, locale="en-US")
    expect(chat.card.locator("[data-key=next]")).to_contain_text("every Tuesday at 09:00")


def test_every_kind_of_clause_has_a_text() -> None:
    composed = {"every": "each.day", "on": "rule.on"}
    assert [kind for kind in ClauseKind if composed.get(kind.value, f"rule.{kind.value}") not in ENGLISH] == []


NOTES = {
    "en-US": [
        "November 1, 2026: clocks go back",
        "Only the next occurrence was moved.",
        "The move of Wed, Dec 9, 7:00 AM is taken back.",
        "Each run starts between 9:00 AM and 9:02:30 AM.",
        "Left out: Wed, Dec 9, 7:00 AM.",
        "Tasks that its last run has made: 7.",
        "What comes after it ended too (2).",
    ],
    "de-DE": [
        "1. November 2026: Die Uhren werden zurückgestellt",
        "Nur der nächste Termin wurde verschoben.",
        "Die Verschiebung vom Mi., 9. Dez., 07:00 ist aufgehoben.",
        "Jeder Lauf beginnt zwischen 09:00 und 09:02:30.",
        "Ausgelassen: Mi., 9. Dez., 07:00.",
        "Vom letzten Lauf angelegte Aufgaben: 7.",
        "Was nach ihr kommt, endete auch (2).",
    ],
    "ja-JP": [
        "2026年11月1日：時計が戻ります",
        "次の1回だけを移動しました。",
        "12月9日(水) 7:00の移動は元に戻されました。",
        "毎回9:00から9:02:30の間に開始します。",
        "省略：12月9日(水) 7:00。",
        "前回の実行で作成されたタスク：7件。",
        "後続のタスクも終了しました（2件）。",
    ],
}


@pytest.mark.parametrize("locale", NOTES)
def test_a_note_is_said_in_the_language_of_the_reader(chat: Chat, locale: str) -> None:
    said = [
        Translatable.of(NoteKind.CLOCKS_BACK, "1 Nov: clocks go back", day="2026-11-01"),
        Translatable.of(NoteKind.ONE_OCCURRENCE, "only the next occurrence was moved; to move them all, ..."),
        Translatable.of(NoteKind.MOVE_UNDONE, "the move of ... is taken back", at="2026-12-09T14:00:00+00:00"),
        Translatable.of(
            NoteKind.JITTER, "each run starts between 09:00 and 09:02:30 ...", time="09:00", last="09:02:30"
        ),
        Translatable.of(NoteKind.LEFT_OUT, "left out, since it was moved ...", times=["2026-12-09T14:00:00+00:00"]),
        Translatable.of(NoteKind.SPAWNED, "its last run has spawned 7 tasks: ...", count=7),
        Translatable.of(NoteKind.OTHERS_ENDED, "what comes after it ended too: t_1, t_2", count="2"),
    ]
    kinds = {text: {"kind": text.kind.value, **text.values} for text in said}
    chat.show_task(a_task(warnings=[*said, "something newer"], words={"sentences": kinds}), locale=locale)
    expect(chat.card.locator(".notice")).to_have_text([*NOTES[locale], "something newer"])


def test_a_note_on_a_step_is_said_in_the_language_of_the_reader_behind_its_name(chat: Chat) -> None:
    said = of_step("import", Translatable.of(NoteKind.SILENT, "this reminder will notify nobody, because of ..."))
    assert isinstance(said, Translatable)
    kinds = {said: {"kind": said.kind.value, **said.values}}
    chat.show_task(a_task(warnings=[said], words={"sentences": kinds}), locale="de-DE")
    expect(chat.card.locator(".notice")).to_have_text(["import: Diese Erinnerung benachrichtigt niemanden."])
