"""The pages of runs: what they show, whom they show it, and what their forms do."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.calls.bulk_change import BulkVerb
from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.outcomes import Failed, Wait
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.rules.time.times import utc_or_none
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.service.bulk.bulk_call import ALL_TASKS, BulkCall
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import ApprovalAnswer, ApprovalRequest, State
from duetime.scheduler.views import TaskRecord
from duetime.server.admin.bulk.picked_runs import ManyChanged
from duetime.server.admin.bulk.undo import NO_UNDO, undo_of
from duetime.server.admin.formats import ticks, wall
from duetime.server.admin.page_request import ADMIN_READ_PAUSE_RATIO, MAX_VALUES_KEPT, KeptReads, Visit
from duetime.server.admin.pages.overview import MAX_OVERVIEW_ROWS_READ, charts_of, hours_of, trends_of
from duetime.server.admin.pages.runs import FORM_TAKEN_BACK, ChangeQuestion
from duetime.server.admin.pages.timeline import NARROW_TICK_COUNT, TICK_COUNT, tick_texts
from duetime.tools.admin.run_rows import RUN_COLUMNS
from markupsafe import escape
from sqlalchemy import update
from starlette.datastructures import ImmutableMultiDict

from tests.builders import a_task, restarted, settlement, some, started
from tests.flow.admin.conftest import ORIGIN, Admin, Open, found_shown
from tests.flow.admin.sample import CANARY

pytestmark = pytest.mark.anyio

PAGES = [
    "",
    "/runs",
    "/runs?state=failed",
    "/runs?state=to_come",
    "/runs?q=invoice&priority=high&since=yesterday",
    "/dead",
    "/dead?state=replayed&q=invoice",
    "/schedules",
    "/timeline?window=24h",
    "/timeline?by=worker&until=yesterday",
    "/cost?by=task",
]


@pytest.fixture
async def admin(tmp_path: Path, day: bytes, admin_page: Open) -> Admin:
    """Serve a day of the local user."""
    (tmp_path / "duetime.db").write_bytes(day)
    return await admin_page()


def run_of(admin: Admin, *states: State, tenant: str = "local") -> str:
    """Return the newest run in one of these states."""
    where = RunFilter(states=states)
    return admin.site.app.scheduler.past.runs(where, by=Principal(tenant)).runs[0].id


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_teaches_while_there_is_nothing(admin_page: Open, path: str) -> None:
    page = await (await admin_page()).get(path)
    assert page.status_code == 200
    assert re.search("duetime schedule|Nothing matches|Each run is a bar|duetime pools set", page.text)


@pytest.mark.parametrize("path", PAGES)
async def test_user_text_is_escaped_on_every_page(admin: Admin, path: str) -> None:
    page = await admin.get(path)
    assert page.status_code == 200
    assert "<img src=x" not in page.text
    of_frame = page.text.replace(str(escape(CANARY)), "")
    assert not re.search(r"\son\w+=|\sstyle=|<script(?! src=)|<style", of_frame)


async def test_costs_stand_by_group_and_lead_to_their_runs(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    total = scheduler.reports.costs().total
    page = unescape((await admin.get("/cost")).text)
    assert f"{money(total)} USD" in page
    links = re.findall(r'href="/admin(/runs\?action=[^"]*)"', page)
    assert [link.partition("&")[0] for link in links] == ["/runs?action=prompt", "/runs?action=webhook"]
    listed = unescape((await admin.get(links[0])).text)
    assert ">Cost<" in listed
    assert "Send invoice" not in listed
    rows = json.loads((await admin.get("/cost?by=task&format=json")).text)["costs"]
    assert sum(Decimal(row["cost"]) for row in rows) == total
    assert {row["timezone"] for row in rows} == {"UTC"}
    by_label = unescape((await admin.get("/cost?by=label")).text)
    assert f"{money(total)} USD" in by_label, "a run with two labels counts for both, and once in the total"
    labels = [line.key for line in scheduler.reports.costs(CostGroup.LABEL).lines]
    shown = re.findall(r'href="/admin/runs\?label=([^"&]*)', by_label)
    assert sorted(shown) == sorted(map(quote, some(labels)))
    run = scheduler.past.runs(RunFilter(min_cost=Decimal("0.015"))).runs[0]
    assert f"<dt>Cost</dt><dd>{money(run.cost or Decimal())}" in (await admin.get(f"/runs/{run.id}")).text
    assert (
        (await admin.get("/cost?by=owner")).status_code == (await admin.get("/cost?since=tomorrow")).status_code == 400
    )


async def test_a_list_without_rows_says_whether_there_are_any_elsewhere(admin: Admin) -> None:
    ready = (await admin.get("/runs?state=skipped")).text
    assert "No run matches these filters" in ready, "there are runs, if none in this state"
    recent = unescape((await admin.get("/runs?q=nobody&priority=high")).text)
    assert '<a href="/admin/runs?q=nobody&priority=high&state=to_come">to come</a>' in recent


async def test_the_list_of_runs_has_its_filters_in_the_address(admin: Admin) -> None:
    found = await admin.get("/runs?q=invoice&priority=high")
    assert "Send invoice" in found.text
    assert "Summarise" not in found.text
    assert 'value="invoice"' in found.text
    failed = unescape((await admin.get("/runs?state=failed")).text)
    assert set(re.findall(r'data-state="(\w+)"', failed)) == {"failed"}


async def test_pages_of_runs_follow_each_other_without_a_gap(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.admin.pages.run_query.RunQuery.page.__defaults__", (7, None))
    path, seen = "/runs", list[str]()
    while path:
        page = (await admin.get(path)).text
        seen += re.findall(r'href="/admin/runs/(r_\w+)"', page)
        following = re.search(r'rel="next" href="/admin([^"]+)"', page)
        path = unescape(following[1]) if following else ""
    every = admin.site.app.scheduler.past.runs(limit=100).runs
    assert seen == [run.id for run in every]


@pytest.mark.parametrize("query", ["state=gone", "priority=urgent", "since=someday", "cursor=x", "format=pdf"])
async def test_a_wrong_filter_is_said_in_words(admin: Admin, query: str) -> None:
    page = await admin.get(f"/runs?{query}")
    assert page.status_code == 400
    assert query.split("=", maxsplit=1)[0] in page.text


async def test_a_file_that_was_cut_says_so(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await admin.get("/runs?format=json")
    assert "cut" not in whole.json()
    assert 'filename="runs.json"' in whole.headers["Content-Disposition"]
    monkeypatch.setattr("duetime.server.admin.pages.runs.MAX_EXPORTED_RUNS", 3)
    monkeypatch.setattr("duetime.server.admin.export.EXPORT_PAGE_ROWS", 3)
    for file_format in ("json", "csv"):
        part = await admin.get(f"/runs?format={file_format}")
        assert f'filename="runs-first-3.{file_format}"' in part.headers["Content-Disposition"]
    assert (await admin.get("/runs?format=json")).json()["cut"] is True


async def test_a_list_is_exported_with_its_filter_and_without_formulas(admin: Admin) -> None:
    admin.site.app.scheduler.schedule("=HYPERLINK(1)", when="in 1 hour", labels=["crm", "eu"])
    rows = list(csv.DictReader(io.StringIO((await admin.get("/runs?state=to_come&format=csv")).text)))
    assert {row["state"] for row in rows} == {"scheduled"}
    assert {"'=HYPERLINK(1)": "crm; eu"}.items() <= {row["title"]: row["labels"] for row in rows}.items()
    assert tuple(rows[0]) == RUN_COLUMNS, "as `duetime runs --csv` writes them"
    sent = await admin.get("/runs?q=invoice&format=json")
    assert sent.headers["content-disposition"] == 'attachment; filename="runs.json"'
    assert {row["action"] for row in json.loads(sent.text)["runs"]} == {"webhook"}


def test_a_slow_answer_is_cached_for_a_while_and_up_to_a_size() -> None:
    now = [0.0]
    kept, read = KeptReads(clock=lambda: now[0]), list[str]()

    def slowly(name: str) -> str:
        read.append(name)
        now[0] += 2
        return name

    assert kept.get("a", lambda: slowly("a")) == kept.get("a", lambda: slowly("a")) == "a"
    now[0] += 2 * ADMIN_READ_PAUSE_RATIO
    assert kept.get("a", lambda: slowly("again")) == "again"
    assert read == ["a", "again"]
    for number in range(MAX_VALUES_KEPT):
        kept.get(number, lambda: "fast")
    assert kept.get("a", lambda: "other") == "other"


async def test_the_overview_says_how_each_tier_did_in_the_last_day(admin: Admin, admin_page: Open) -> None:
    page = " ".join(unescape((await admin.get("")).text).split())
    found = trends_of(visit := visit_of(admin))
    for tier, hours in found.tiers.items():
        missed, due = sum(hour.missed for hour in hours), sum(hour.due for hour in hours)
        assert f"{missed} of {due}" in page if missed else f"none of {due}" in page or not due, tier
    assert any(hour.missed for hours in found.tiers.values() for hour in hours), "the sample has misses"
    rows = re.findall(r"<tr><th scope=\"row\" class=\"tight\"><time", page)
    assert len(rows) == len(list(hours_of(found)))
    assert all(each.action in page for each in found.actions if each.missed)
    drawn = {each.title: each for each in charts_of(found)}
    assert drawn.keys() == {"Runs that wait", "Longest wait", "Missed deadlines", "Late by at most"}
    assert page.count("data-chart=") == 1 + len(drawn)
    latest = drawn["Late by at most"]
    for tier, line in zip(latest.tiers, latest.points[1:], strict=True):
        assert list(line) == [hour.latest.total_seconds() for hour in found.tiers[tier]]
    assert not list(charts_of(trends_of(replace(visit, principal=Principal("globex", "bob")))))
    assert not list(hours_of(trends_of(replace(visit, principal=Principal("globex", "bob")))))


def visit_of(admin: Admin) -> Visit:
    app, nothing = admin.site.app, ImmutableMultiDict[str, str]()
    return Visit(app, LOCAL, "/", {}, nothing, nothing, "UTC", app.store.now())


# --- a run


async def test_a_failed_run_shows_its_attempts_traceback_and_payload_without_secrets(admin: Admin) -> None:
    page = unescape((await admin.get(f"/runs/{run_of(admin, State.FAILED)}")).text)
    for expected in ("Traceback (most recent call last)", "3 of 3", "created", "***"):
        assert expected in page
    assert "sk-9f8e7d6c5b4a" not in page


async def test_every_run_has_its_page(admin: Admin) -> None:
    for state in ("", "to_come", "ready", "failed"):
        for run in some(re.findall(r"/runs/(r_\w+)", (await admin.get(f"/runs?state={state}")).text)):
            assert (await admin.get(f"/runs/{run}")).status_code == 200


async def test_a_run_shows_its_key_and_the_template_of_the_keys_of_its_task(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    keyed = {"labels": ["account:acme"], "idempotency_key": "{tenant}:{label.account}:{window}"}
    view = scheduler.schedule("Import", when="2030-11-24 09:00", timezone="UTC", repeat="daily at 9:00", **keyed)  # type: ignore[arg-type]  # as in JSON
    page = (await admin.get(f"/runs/{view.record.run.id}")).text
    assert "<dt>Idempotency key</dt><dd><code>local:acme:2030-11-24T09:00Z</code></dd>" in page
    assert "<dt>Idempotency keys</dt><dd><code>{tenant}:{label.account}:{window}</code></dd>" in page
    plain = scheduler.schedule("Import orders", when="in 1 hour").record.run.id
    assert "Idempotency" not in (await admin.get(f"/runs/{plain}")).text


async def test_the_next_due_run_stands_first_among_those_to_come(admin: Admin) -> None:
    async def listed(state: str) -> list[dict[str, str]]:
        sent = await admin.get(f"/runs?state={state}&format=json")
        runs: list[dict[str, str]] = json.loads(sent.text)["runs"]
        return runs

    to_come, ended = ([run["at"] for run in runs] for runs in (await listed("to_come"), await listed("succeeded")))
    assert len(set(to_come)) > 2
    assert to_come == sorted(to_come)
    assert ended == sorted(ended, reverse=True)


async def test_the_overview_shows_what_is_due_next_however_much_is_due_at_once(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    for number in range(MAX_OVERVIEW_ROWS_READ + 1):
        scheduler.schedule(f"Later {number}", when=timedelta(seconds=90, milliseconds=number))
    scheduler.schedule("The very next", when=timedelta(seconds=60))
    soon = (await admin.get("")).text.split("Due soon", 1)[1]
    assert "The very next" in soon


async def test_a_run_that_waits_says_why(admin: Admin) -> None:
    page = await admin.get(f"/runs/{run_of(admin, State.READY)}")
    assert "Why it is not running" in page.text
    assert "none is running" in page.text


async def test_a_reason_links_the_tasks_that_it_names_and_nothing_else(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    first = scheduler.schedule("<i>First</i>", when=timedelta(hours=1)).record.task.id
    second = scheduler.schedule("Second", after=[first]).record
    page = (await admin.get(f"/runs/{second.run.id}")).text
    said = page.split("Why it is not running", 1)[1].split("</section>", 1)[0]
    assert f'<a href="/admin/tasks/{first}">{first}</a>' in said
    assert "&lt;i&gt;First" in said
    assert said.count("<a ") == 1


@pytest.mark.parametrize("ended", [True, False])
async def test_progress_reads_as_percent_until_the_run_has_succeeded(admin: Admin, *, ended: bool) -> None:
    store, run = admin.site.app.store, run_of(admin, State.READY)
    lease = timedelta(minutes=1)
    [claim] = store.claims.start([Start(run)], worker="w", epoch=None, lease=lease)
    store.claims.progress(run, claim.run.attempt, {"fraction": 0.4, "text": "half of <b>all</b>"})
    if ended:
        store.claims.settle([settlement(claim)])
    page = (await admin.get(f"/runs/{run}")).text
    assert ("Progress" in page) is not ended
    assert ("40 %" in page and "half of &lt;b&gt;all" in page) is not ended


async def test_the_id_of_a_task_leads_to_its_current_run(admin: Admin) -> None:
    run = run_of(admin, State.FAILED)
    task = admin.site.app.scheduler.past.run(run).record.task.id
    assert (await admin.get(f"/tasks/{task}")).headers["location"] == f"/admin/runs/{run}"
    assert (await admin.get("/tasks/t_gone")).status_code == 404
    assert (await admin.get("/runs/r_gone")).status_code == 404


async def test_a_run_that_asks_is_answered_from_its_page_and_an_old_page_answers_nothing(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    asks: ApprovalRequest = {"question": "Pay the wages?", "by": "2 hours"}
    task = scheduler.schedule("Payroll", repeat="every day at 9:00", approval=asks).record.task.id
    scheduler.reschedule(task, when="now")
    admin.site.app.store.claims.make_ready(limit=99)
    asked = scheduler.get(task).record.run.id
    page = unescape((await admin.get(f"/runs/{asked}")).text)
    assert "Pay the wages?" in page
    assert "This run is skipped, and the series goes on." in page
    assert ">Run now<" not in page
    rejected = await admin.post(f"/runs/{asked}/reject", reason="no money")
    assert rejected.status_code == 303, rejected.text
    following = scheduler.get(task).record.run
    assert (following.state, following.id != asked) == (State.SCHEDULED, True)
    assert "/approve" not in (await admin.get(f"/runs/{asked}")).text
    assert (await admin.post(f"/runs/{asked}/approve")).status_code == 409
    [event] = [event for event in scheduler.past.events().events if event.kind == "rejected"]
    assert (event.actor, event.reason, event.run_id) == ("local", "no money", asked)
    one = scheduler.schedule("Pay", when="in 2 hours", approval=True).record
    assert (await admin.post(f"/runs/{one.run.id}/approve")).status_code == 303
    assert scheduler.get(one.task.id).record.run.state is State.SCHEDULED


async def test_a_question_of_a_run_out_of_turn_is_answered_from_its_page(admin: Admin) -> None:
    scheduler, store = admin.site.app.scheduler, admin.site.app.store
    task = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    scheduler.act(task, "run_now")
    store.claims.make_ready(limit=99)
    [run] = scheduler.get(task).record.side_runs
    [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=timedelta(minutes=1))
    now = store.now()
    assert store.claims.settle([settle(claim, Wait(approval="Send it?"), now=now, jitter=0.0)]) == [Verdict.SETTLED]
    page = unescape((await admin.get(f"/runs/{run.id}")).text)
    assert "Send it?" in page
    assert "Its handler reads the answer." in page
    assert "/approve" not in (await admin.get(f"/runs/{scheduler.get(task).record.run.id}")).text
    assert (await admin.post(f"/runs/{run.id}/approve")).status_code == 303
    answered = store.approvals.answered("local", run.id)
    assert answered is not None
    assert answered.answer is ApprovalAnswer.APPROVE


async def test_a_paused_task_is_not_overdue(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    late = RunFilter(
        states=(State.SCHEDULED, State.READY, State.RETRYING), unpaused=True, until=admin.site.app.store.now()
    )
    found = scheduler.past.runs(late).runs
    assert "<h2>Overdue</h2>" in (await admin.get("")).text
    assert found[0].id in (await admin.get("/runs?state=overdue")).text
    for run in found:
        if not scheduler.get(run.task_id).record.task.paused:
            scheduler.reschedule(run.task_id, pause=True)
    assert "<h2>Overdue</h2>" not in (await admin.get("")).text
    assert found[0].id not in (await admin.get("/runs?state=overdue")).text


async def test_a_run_is_cancelled_moved_paused_and_run_again_from_its_page(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    task = scheduler.schedule("Later", when="in 3 hours").record.task.id

    async def act(verb: str, **fields: str) -> str:
        run = scheduler.get(task).record.run.id
        done = await admin.post(f"/runs/{run}/{verb}", **fields)
        assert done.status_code == 303, done.text
        return str(scheduler.get(task).record.run.state)

    before = scheduler.get(task).record.run.scheduled_for
    assert await act("reschedule", when="in 5 hours") == State.SCHEDULED
    assert scheduler.get(task).record.run.scheduled_for > before
    await act("pause", pause="true")
    assert scheduler.get(task).record.task.paused
    await act("pause", pause="false")
    assert not scheduler.get(task).record.task.paused
    await act("pause", pause="true", until="in 2 hours")
    until = scheduler.get(task).record.task.paused_until
    assert until is not None
    page = (await admin.get(f"/runs/{scheduler.get(task).record.run.id}")).text
    assert "until it is resumed" not in page
    assert await act("cancel", reason="no longer wanted") == State.CANCELLED
    [cancelled] = [event for event in scheduler.past.events().events if event.kind == "cancelled"]
    assert (cancelled.actor, cancelled.reason) == ("local", "no longer wanted")
    assert str(cancelled.via).startswith("admin ")


async def test_a_deadline_that_counts_from_the_start_is_said_so_and_not_as_missed(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    view = scheduler.schedule("Later", when="now", deadline="2 hours", deadline_type="hard", wait_for={"event": "go"})
    page = (await admin.get(f"/runs/{view.record.run.id}")).text
    assert re.search(r"<dt>Deadline</dt><dd>2 h\w* after it can start", page), page
    assert "missed by" not in page


async def test_a_run_that_is_stopping_or_held_says_so_on_its_page_and_in_the_list(admin: Admin) -> None:
    scheduler, store = admin.site.app.scheduler, admin.site.app.store
    claim = restarted(store, scheduler.schedule("Build", when="now", action="reminder").record)
    scheduler.cancel(claim.run.task_id)
    held = scheduler.schedule("Later", when="in 3 hours").record
    scheduler.reschedule(held.task.id, pause=True)
    for run, word in ((claim.run.id, "stopping"), (held.run.id, "paused")):
        shown = f'<span class="state" data-state="{word}">{word}</span>'
        assert shown in (await admin.get(f"/runs/{run}")).text
        listed = (await admin.get("/runs?state=running,scheduled")).text
        assert shown in next(row for row in listed.split("<tr ") if run in row)
        sent = json.loads((await admin.get("/runs?state=running,scheduled&format=json")).text)["runs"]
        [row] = [each for each in sent if each["id"] == run]
        assert (bool(row["paused"]), bool(row["cancel_requested"])) == (word == "paused", word == "stopping")


async def test_a_failed_chain_runs_again_as_its_next_generation(admin: Admin) -> None:
    run = run_of(admin, State.FAILED)
    task = admin.site.app.scheduler.past.run(run).record.task.id
    done = await admin.post(f"/runs/{run}/run")
    assert admin.site.app.scheduler.get(task).record.run.generation == 2
    assert f"/runs/{run}" not in done.headers["location"]
    page = await admin.get(f"/runs/{run}")
    assert "later run" in page.text
    assert "Run now" not in page.text


async def test_a_refusal_is_said_on_the_page(admin: Admin) -> None:
    run = run_of(admin, State.SCHEDULED)
    refused = await admin.post(f"/runs/{run}/reschedule", when="yesterday")
    assert refused.status_code == 400
    page = unescape(refused.text)
    assert "<h1>A value is wrong</h1>" in page
    assert f'<form method="post" action="/admin/runs/{run}/reschedule"' in page
    assert '<input name="when" value="yesterday" size="40" autocomplete="off" aria-invalid="true"' in page


async def test_a_wrong_filter_is_named_with_what_is_accepted_and_comes_back_to_be_corrected(admin: Admin) -> None:
    answer = await admin.get(
        "/runs?state=bogus&q=plants&since=friday&cursor=x", Referer=f"{ORIGIN}/admin/runs?q=plants"
    )
    page, accepted = unescape(answer.text), re.search(r"Accepted: ([a-z_, ]+)\.", unescape(answer.text))
    assert answer.status_code == 400
    assert "state: 'bogus' is not known." in page
    assert accepted is not None
    words = accepted[1].split(", ")
    assert ("running" in words, len(words) - len({*words})) == (True, 0)
    assert '<form method="get" action="/admin/runs"' in page
    assert '<input name="state" value="bogus" size="40" autocomplete="off" aria-invalid="true"' in page
    assert '<input name="q" value="plants"' in page
    assert 'name="cursor"' not in page
    assert '<a href="/admin/runs?q=plants">Back</a>' in page


async def test_many_runs_are_changed_at_once_and_refusals_are_told(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    tasks = [scheduler.schedule(f"Later {n}", when="in 3 hours").record for n in range(3)]
    picked = [each.run.id for each in tasks]
    done = await admin.post("/runs/change", pick=[*picked, "r_gone"], change="cancel", after="/admin/runs?q=later")
    assert done.headers["location"] == "/admin/runs?q=later"
    assert {scheduler.get(each.task.id).record.run.state for each in tasks} == {State.CANCELLED}
    said = unescape((await admin.get("/runs?q=later")).text)
    assert "Cancelled 3. 1 refused: " in said
    await admin.post("/runs/change", pick=picked[:1], change="cancel", after="/admin/runs")
    assert "Cancelled 0. 1 was so already." in (await admin.get("/runs")).text


def asked_of(page: str) -> tuple[str, dict[str, list[str]]]:
    """Return the words of the question that a page asks before it changes many, and the fields of its form."""
    question = page.partition('<section class="notice ask" aria-labelledby="ask">')[2].partition("</section>")[0]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input[^>]*name="(\w+)"[^>]*value="([^"]*)"', question):
        fields.setdefault(name, []).append(unescape(value))
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", question.partition("<form")[0])).split()), fields


async def taken_back(admin: Admin, shown: str) -> None:
    """Press the undo of a page."""
    undo = re.search(r'action="/admin/runs/undo">(.*?)</form>', shown, re.DOTALL)
    assert undo is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', undo[1]))
    await admin.http.post("/admin/runs/undo", data=fields, headers={"Origin": ORIGIN})


async def test_a_change_of_many_asks_first_and_is_done_once_and_taken_back(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    made = [scheduler.schedule(f"Later {n}", when="in 3 hours").record for n in range(4)]
    scheduler.reschedule(made[0].task.id, pause=True)
    scheduler.cancel(made[3].task.id)
    picked = {"pick": [*(each.run.id for each in made), "r_gone"]}

    def states() -> list[str]:
        found = [scheduler.get(each.task.id).record for each in made]
        return ["paused" if each.task.paused else each.run.state.value for each in found]

    before, shown = states(), ""
    query = urlencode({"q": "later", "change": "cancel", **picked}, doseq=True)
    question, sent = asked_of((await admin.get(f"/runs?{query}")).text)
    assert "Cancel 3 tasks? 2 scheduled, 1 paused. 1 was so already. 1 refused: " in question
    assert "Undo takes it back for 10 minutes." in question
    assert states() == before, "a question changes nothing"
    for _ in range(2):
        done = await admin.http.post("/admin/runs/change", data=sent, headers={"Origin": ORIGIN})
        assert done.headers["location"] == "/admin/runs?q=later"
        shown = (await admin.get("/runs?q=later")).text
        assert "Cancelled 3. 1 was so already. 1 refused: " in unescape(shown)
    await taken_back(admin, shown)  # the second press has the undo of the first
    assert states() == before
    await admin.http.post("/admin/runs/change", data=sent, headers={"Origin": ORIGIN})
    assert FORM_TAKEN_BACK in (await admin.get("/runs")).text
    assert states() == before


async def test_a_cancel_sent_again_after_its_undo_says_so_though_each_of_its_tasks_has_another_run(
    admin: Admin,
) -> None:
    scheduler = admin.site.app.scheduler
    made = [scheduler.schedule(f"Later {n}", when="in 3 hours").record for n in range(2)]
    query = urlencode({"change": "cancel", "pick": [each.run.id for each in made]}, doseq=True)
    _, sent = asked_of((await admin.get(f"/runs?{query}")).text)
    await admin.http.post("/admin/runs/change", data=sent, headers={"Origin": ORIGIN})
    await taken_back(admin, (await admin.get("/runs")).text)
    await admin.http.post("/admin/runs/change", data=sent, headers={"Origin": ORIGIN})
    shown = (await admin.get("/runs")).text
    assert (FORM_TAKEN_BACK in shown, "refused" in shown) == (True, False)
    assert {scheduler.get(each.task.id).record.run.state for each in made} == {State.SCHEDULED}


@pytest.mark.parametrize(("count", "is_promised"), [(40, True), (60, False)])
def test_a_question_promises_an_undo_only_where_the_page_can_keep_it(count: int, is_promised: bool) -> None:
    tenants = [f"t{number:04}" for number in range(count)]
    tokens = [f"{BulkCall.of(BulkVerb.CANCEL, (), ALL_TASKS, {}).new_token()} {tenant}" for tenant in tenants]
    asked = ChangeQuestion(BulkVerb.CANCEL, ManyChanged(changed=[TaskRecord(*a_task())], tenants=tenants), ())
    assert ("Undo takes it back" in asked.sentence, NO_UNDO in asked.sentence) == (is_promised, not is_promised)
    assert bool(undo_of(tokens)) == is_promised


async def test_the_answer_to_a_change_whose_undo_the_page_cannot_keep_says_that_it_has_none(admin: Admin) -> None:
    store = admin.site.app.store
    made = [a_task(store.now() + timedelta(hours=3), tenant=f"{'subsidiary-' * 9}{number}") for number in range(40)]
    for task, run in made:
        store.tasks.add(task, run, actor="maria")
    await admin.post("/runs/change", pick=[run.id for _, run in made], change="cancel", after="/admin/runs")
    shown = (await admin.get("/runs")).text
    assert (f"Cancelled 40. {NO_UNDO}" in shown, "/admin/runs/undo" in shown) == (True, False)


async def test_the_answer_about_long_titles_and_its_undo_fit_into_a_cookie(admin: Admin) -> None:
    scheduler, store = admin.site.app.scheduler, admin.site.app.store
    over = [
        scheduler.schedule(f"{'会議室の予約を確認する' * 16}{number}", when="in 3 hours").record for number in range(3)
    ]
    undo = scheduler.bulk.change(BulkVerb.CANCEL, [each.task.id for each in over]).undo
    scheduler.bulk.change(BulkVerb.UNDO, undo=undo)  # gives each another run
    made = [a_task(store.now() + timedelta(hours=3), tenant=f"t{number:012}") for number in range(40)]
    for task, run in made:
        store.tasks.add(task, run, actor="maria")
    picked = [*(run.id for _, run in made), *(each.run.id for each in over)]
    done = await admin.post("/runs/change", pick=picked, change="cancel", after="/admin/runs")
    assert max(map(len, done.headers.get_list("set-cookie"))) < 4096, "browsers drop a larger one"
    shown = unescape((await admin.get("/runs")).text)
    assert "Cancelled 40. 3 refused: This run of '会議室" in shown
    assert "/admin/runs/undo" in shown


async def test_the_question_before_many_tasks_start_says_that_a_start_has_no_undo(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    made = scheduler.schedule("Later", when="in 3 hours", repeat="every day").record
    query = urlencode({"change": "run_now", "pick": [f"{made.run.id} open", "r_gone"]}, doseq=True)
    question, sent = asked_of((await admin.get(f"/runs?{query}")).text)
    assert question.startswith("Run 1 task now? 1 scheduled. 1 refused: ")
    assert "A start has no undo." in question
    started = []
    for _ in range(2):
        await admin.http.post("/admin/runs/change", data=sent, headers={"Origin": ORIGIN})
        started.append(scheduler.get(made.task.id).record)
    assert started[0].task.revision > made.task.revision
    assert started[1] == started[0], "a second press starts no second run"


async def test_the_question_says_which_cancels_no_undo_brings_back(admin: Admin) -> None:
    store = admin.site.app.store
    run = started(store, store.now(), title="Mow the lawn", tenant="local").run.id
    page = (await admin.get(f"/runs?change=cancel&pick={run}")).text
    question, _ = asked_of(page)
    assert question.startswith("Cancel 1 task? 1 running.")
    assert ("Leave it" in page, "Leave them" in page) == (True, False)
    assert "1 cannot be undone: it is asked to stop" in question


async def test_a_wrong_end_of_a_pause_of_many_is_told_before_anything_is_asked(admin: Admin) -> None:
    picked = [admin.site.app.scheduler.schedule(f"Later {n}", when="in 3 hours").record.run.id for n in range(3)]
    refused = await admin.get("/runs?" + urlencode({"change": "pause", "to": "yesterday", "pick": picked}, doseq=True))
    page = unescape(refused.text)
    assert (refused.status_code, page.count("'yesterday' is in the past")) == (400, 1)
    assert '<input name="to" value="yesterday" size="40" autocomplete="off" aria-invalid="true"' in page
    assert page.count('<input type="hidden" name="pick"') == 3


async def test_a_schedule_that_was_changed_since_its_page_is_neither_paused_nor_resumed(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    task = scheduler.schedule("Water the plants", repeat="every weekday at 9:00").record.task.id
    page = "/schedules?q=plants"
    shown = found_shown((await admin.get(page)).text)
    scheduler.reschedule(task, pause=True)
    paused = scheduler.get(task).record.task
    for pause in ("true", "false"):
        refused = await admin.post(f"/schedules/{task}/pause", **shown, pause=pause, after="/admin/schedules")
        assert refused.status_code == 409
        assert "The task was changed since this page was opened" in refused.text
    assert scheduler.get(task).record.task == paused
    await admin.post(f"/schedules/{task}/pause", page=page, pause="false", after="/admin/schedules")
    assert "Resumed: Water the plants" in (await admin.get("/schedules")).text


@pytest.mark.parametrize("change", ["cancel", "pause", "run_now"])
async def test_a_run_that_is_over_is_picked_in_vain_while_its_task_has_a_later_one(admin: Admin, change: str) -> None:
    scheduler, run = admin.site.app.scheduler, run_of(admin, State.FAILED)
    found = scheduler.past.run(run).record.task
    await admin.post(f"/runs/{run}/run")
    before = scheduler.get(found.id).record
    assert f'name="pick" value="{run}"' in (await admin.get("/runs?state=failed")).text
    await admin.post("/runs/change", pick=run, change=change, after="/admin/runs")
    after = scheduler.get(found.id).record
    assert (after.run, after.task.paused) == (before.run, False)
    said = unescape((await admin.get("/runs")).text)
    assert f"0. 1 refused: This run of {found.title!r} is over, and its task has a later one." in said


async def test_many_tasks_are_paused_until_a_time_and_resumed(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    made = [scheduler.schedule(f"Later {n}", when="in 3 hours").record for n in range(3)]
    tasks, picked = [each.task.id for each in made], [each.run.id for each in made]
    await admin.post("/runs/change", pick=picked, change="pause", to="in 2 hours", after="/admin/runs")
    assert all(scheduler.get(task).record.task.paused_until for task in tasks)
    await admin.post("/runs/change", pick=picked, change="resume", after="/admin/runs")
    assert not any(scheduler.get(task).record.task.paused for task in tasks)


async def test_an_end_of_a_pause_counts_in_the_zone_of_the_task_and_is_said_with_it(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    berlin, other, third = (
        scheduler.schedule(f"In {zone}", when="in 3 hours", timezone=zone).record
        for zone in ("Europe/Berlin", "America/New_York", "Europe/Berlin")
    )
    form = (await admin.get(f"/runs/{berlin.run.id}")).text.partition("<summary>Pause")[2].partition("</form>")[0]
    assert "In Europe/Berlin, the zone of the task." in form
    year = scheduler.get(berlin.task.id).record.run.scheduled_for.year + 1
    await admin.post(f"/runs/{berlin.run.id}/pause", pause="true", until=f"{year}-03-02 09:00")
    paused = scheduler.get(berlin.task.id).record.task.paused_until
    assert paused == datetime(year, 3, 2, 9, tzinfo=ZoneInfo("Europe/Berlin"))
    said = unescape((await admin.get("/runs")).text)
    assert re.search(rf"Paused until \w+ 2 Mar {year} 09:00 Europe/Berlin\.", said)
    assert "by the clock of each task's zone" in said
    picked = [each.run.id for each in (berlin, other, third)]
    day, change = rf"\w+ 3 Mar {year} 09:00", {"change": "pause", "to": f"{year}-03-03 09:00"}
    question, _ = asked_of((await admin.get(f"/runs?{urlencode({**change, 'pick': picked}, doseq=True)}")).text)
    assert re.search(rf"\. Paused until {day} Europe/Berlin, {day} America/New_York\.", question)
    await admin.post("/runs/change", pick=picked, **change, after="/admin/runs")
    said = unescape((await admin.get("/runs")).text)
    assert re.search(rf"Paused 3 until {day} Europe/Berlin, {day} America/New_York\.", said)
    await admin.post("/runs/change", pick=picked, change="resume", after="/admin/runs")
    assert "Resumed 3." in (await admin.get("/runs")).text
    await admin.post(f"/runs/{other.run.id}/reschedule", when=f"{year}-03-04 08:00")
    assert re.search(rf"Moved to \w+ 4 Mar {year} 08:00 America/New_York\.", (await admin.get("/runs")).text)


async def test_a_schedule_is_listed_with_its_next_times_and_paused(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    task = scheduler.schedule("Water the plants", when="tomorrow 9am", repeat="every weekday at 9:00").record.task.id
    page = unescape((await admin.get("/schedules?q=plants")).text)
    assert "every weekday" in page
    assert "Send invoice" not in page
    done = await admin.post(f"/schedules/{task}/pause", pause="true", after="/admin/schedules?q=plants")
    assert done.headers["location"] == "/admin/schedules?q=plants"
    assert scheduler.get(task).record.task.paused
    assert "Paused: Water the plants" in (await admin.get("/schedules")).text
    until = scheduler.reschedule(task, pause_until="in 3 days").record.task.paused_until
    store = admin.site.app.store
    claim = started(store, store.now() - timedelta(hours=1), tenant="local", repeat="FREQ=DAILY;BYHOUR=9;BYMINUTE=0")
    store.claims.settle([settle(claim, Failed("no water"), now=store.now(), jitter=0.0)])
    rows = {row["task"]: row for row in json.loads((await admin.get("/schedules?format=json")).text)["schedules"]}
    assert (rows[task]["paused_until"], rows[task]["last_state"]) == (utc_or_none(until), None)
    assert (rows[claim.task.id]["paused_until"], rows[claim.task.id]["last_state"]) == (None, "failed")
    await admin.post(f"/schedules/{task}/pause", pause="false")
    assert not scheduler.get(task).record.task.paused


async def test_quiet_hours_of_a_user_are_shown_set_and_forgotten_with_an_audit_entry(admin: Admin) -> None:
    app = admin.site.app
    assert "No quiet hours for ann of local, by the settings." in (await admin.get("/schedules?user=ann")).text
    await admin.post("/schedules/quiet-hours", user="ann", hours="22:00-07:00 Europe/Berlin", do="set")
    page = unescape((await admin.get("/schedules?user=ann")).text)
    assert "Quiet hours of ann of local: 22:00-07:00 Europe/Berlin, set for this user." in page
    assert app.scheduler.quiet_hours.read(user="ann").own
    await admin.post("/schedules/quiet-hours", user="ann", do="forget")
    assert not app.scheduler.quiet_hours.read(user="ann").own
    entries = [each for each in app.scheduler.past.audit().entries if each.subject == "ann"]
    assert [each.kind for each in entries] == ["quiet_hours_cleared", "quiet_hours_set"]
    assert all((each.via or "").startswith("admin") for each in entries)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("min_attempts=2", False),
        ("min_attempts=1", True),
        ("title=IMPORT", True),
        ("title=export", False),
        ("error=import", False),
        ("min_duration=2+min", True),
        ("max_duration=2+min", False),
        ("min_delay=1+h", False),
        ("min_lateness=1+s", False),
        ("pool=gpu", False),
        ("min_units=1", False),
    ],
)
async def test_runs_are_filtered_by_what_their_attempts_took(admin: Admin, query: str, *, found: bool) -> None:
    store = admin.site.app.store
    claim = started(store, store.now(), title="Nightly import")
    times = {"started_at": store.now() - timedelta(minutes=3), "ended_at": store.now()}
    store.claims.settle([settlement(claim)])
    statement = update(runs).where(runs.c.id == claim.run.id).values(**times)
    store._database.write(lambda connection: connection.execute(statement))
    assert ("Nightly import" in (await admin.get(f"/runs?q=Nightly&{query}")).text) is found


async def test_a_filter_that_runs_do_not_have_is_refused_with_those_that_they_have(admin: Admin) -> None:
    answer = await admin.get("/runs?min_atempts=2")
    assert answer.status_code == 400
    assert "min_attempts" in answer.text


async def test_the_time_line_shows_each_run_of_the_window_once(admin: Admin) -> None:
    page = (await admin.get("/timeline?window=24h")).text
    shown = re.findall(r'<a href="/admin/runs/(r_\w+)"', page)
    since = admin.site.app.store.now() - timedelta(days=1)
    ran = admin.site.app.scheduler.past.runs(since=since, limit=100).runs
    assert sorted(shown) == sorted(run.id for run in ran if run.started_at)
    ticks = re.findall(r"<span>(?:\d+ \w{3} )?\d\d:\d\d</span>", page)
    assert len(ticks) == TICK_COUNT + NARROW_TICK_COUNT, "all have one format"
    assert len(re.findall(r" to <time [^>]+>today \d\d:\d\d:\d\d<", page)) == 1, "its end, a day later"
    assert (await admin.get("/timeline?window=1y")).status_code == 400
    assert (await admin.get("/timeline?by=mood")).status_code == 400


async def test_a_run_is_on_the_time_line_of_each_window_that_it_was_at_work_in(admin: Admin) -> None:
    app = admin.site.app
    now = app.store.now()
    claim = started(app.store, now - timedelta(hours=3), title="Nightly import")
    ends = {"started_at": now - timedelta(hours=3), "ended_at": now - timedelta(hours=1)}
    app.store.claims.settle([settlement(claim)])
    statement = update(runs).where(runs.c.id == claim.run.id).values(**ends, listed_at=ends["ended_at"])
    app.store._database.write(lambda connection: connection.execute(statement))
    shown = {
        f"{window} until {until}": "Nightly import"
        in (await admin.get(f"/timeline?window={window}&until={until}")).text
        for window, until in (("15m", "2 hours ago"), ("1h", "90 minutes ago"), ("6h", "now"), ("15m", "4 hours ago"))
    }
    assert list(shown.values()) == [True, True, True, False], shown


@pytest.mark.parametrize(
    ("end", "hours", "shown"),
    [
        ("2026-11-24T15:00", 24, ["23 Nov 16:00", "20:00", "24 Nov 00:00", "04:00", "08:00", "12:00"]),
        ("2026-11-24T15:00", 6, ["10:00", "11:00", "12:00", "13:00", "14:00", "15:00"]),
        ("2026-11-23T15:00", 6, ["23 Nov 10:00", "11:00", "12:00", "13:00", "14:00", "15:00"]),
    ],
)
def test_the_ticks_of_a_time_line_name_a_day_only_where_it_changes(end: str, hours: int, shown: list[str]) -> None:
    until, length = datetime.fromisoformat(f"{end}+00:00"), timedelta(hours=hours)
    at = [until - length + length * tick / TICK_COUNT for tick in range(TICK_COUNT)]
    now = datetime.fromisoformat("2026-11-24T15:00+00:00")
    assert ticks(at, "Europe/Berlin", now) == shown
    assert ticks(at[:1], "Europe/Berlin", now, seconds=True) == [f"{shown[0]}:00"]


@pytest.mark.parametrize(
    ("since", "text"), [(None, "18:34:02"), ("2026-11-24T00:00", "18:34:02"), ("2026-11-23T23:59", "today 18:34:02")]
)
def test_the_end_of_a_time_that_began_on_another_day_says_that_it_is_today(since: str | None, text: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 11, 24, 18, 34, 2, tzinfo=berlin)
    began = None if since is None else datetime.fromisoformat(since).replace(tzinfo=berlin)
    assert wall(now, "Europe/Berlin", now, since=began) == text


@pytest.mark.parametrize(("hours", "text"), [(20, "23 Nov 22:34:02"), (43, "22 Nov 23:34"), (-6, "25 Nov 00:34")])
def test_a_time_of_yesterday_has_its_seconds(hours: int, text: str) -> None:
    now = datetime(2026, 11, 24, 18, 34, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    assert wall(now - timedelta(hours=hours), "Europe/Berlin", now) == text


def test_the_fewer_ticks_of_a_narrow_window_name_a_day_that_began_at_a_tick_between_them() -> None:
    since, length = datetime.fromisoformat("2026-11-23T15:00+00:00"), timedelta(hours=24)
    wide, few = tick_texts(since, length, "Europe/Berlin", since + length)
    assert wide == ["23 Nov 16:00", "20:00", "24 Nov 00:00", "04:00", "08:00", "12:00"]
    assert few == ["23 Nov 16:00", "24 Nov 04:00"]


# --- tenants


@pytest.fixture
async def shared(tmp_path: Path, day_of_two: bytes, admin_page: Open) -> Admin:
    """Serve two tenants."""
    (tmp_path / "duetime.db").write_bytes(day_of_two)
    return await admin_page(auth=("keys",), operator_tenant="house")


@pytest.mark.parametrize("path", PAGES)
async def test_a_tenant_sees_nothing_of_another_one(shared: Admin, path: str) -> None:
    await shared.enter("admin", tenant="initech")
    for asked in (path, f"{path}{'&' if '?' in path else '?'}tenant=acme"):
        page = await shared.get(asked)
        assert "invoice 1" not in page.text
        assert CANARY not in unescape(page.text)


async def test_a_tenant_sees_no_cost_of_another_one(shared: Admin) -> None:
    await shared.enter("admin", tenant="initech")
    for path in ("/cost", "/cost?by=pool", "/cost?tenant=acme", "/cost?by=action&tenant=*"):
        page = (await shared.get(path)).text
        assert "Nothing cost anything" in page
        assert "USD" not in page
    assert (await shared.get("/cost?by=owner")).status_code == 400


async def test_costs_by_tenant_stand_by_action_where_one_tenant_is_shown(shared: Admin) -> None:
    await shared.enter("admin", tenant="acme")
    page = await shared.get("/cost?by=tenant")
    assert page.status_code == 200
    assert '<option value="action" selected>' in page.text
    assert '<option value="tenant"' not in page.text
    await shared.enter("admin", tenant="house")
    assert "<h2>By action</h2>" in (await shared.get("/cost?by=tenant&tenant=acme")).text


async def test_a_foreign_run_is_not_found_and_cannot_be_changed(shared: Admin) -> None:
    run = run_of(shared, State.SCHEDULED, tenant="acme")
    task = shared.site.app.store.run_history.detail("acme", run).record.task.id
    await shared.enter("admin", tenant="globex")
    assert (await shared.get(f"/runs/{run}")).status_code == 404
    assert (await shared.get(f"/tasks/{task}")).status_code == 404
    assert (await shared.post(f"/runs/{run}/cancel")).status_code == 404
    await shared.post("/runs/change", pick=[run], change="cancel", after="/admin/runs")
    assert shared.site.app.store.run_history.detail("acme", run).run.state is State.SCHEDULED


async def test_an_operator_sees_all_tenants_or_the_one_that_he_chooses(shared: Admin) -> None:
    await shared.enter("admin", tenant="house")
    every = (await shared.get("/runs")).text
    assert "acme" in every
    assert "globex" in every
    costs = (await shared.get("/cost?by=tenant")).text
    assert "/admin/cost?tenant=acme" in costs
    assert "/admin/cost?tenant=globex" in costs
    one = (await shared.get("/runs?tenant=acme")).text
    assert "globex" not in one
    assert "/admin/runs?tenant=acme&amp;state=failed" in one or "tenant=acme" in one
    run = run_of(shared, State.SCHEDULED, tenant="acme")
    assert (await shared.post(f"/runs/{run}/cancel", reason="by the house")).status_code == 303
    assert shared.site.app.store.run_history.detail("acme", run).run.state is State.CANCELLED


async def test_a_reader_sees_no_button_that_changes(shared: Admin) -> None:
    await shared.enter("admin:read", tenant="acme")
    run = run_of(shared, State.SCHEDULED, tenant="acme")
    for path in (*PAGES, f"/runs/{run}"):
        forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', (await shared.get(path)).text)
        assert set(forms) <= {"/admin/logout"}
        assert 'name="change"' not in (await shared.get(path)).text
    assert (await shared.post(f"/runs/{run}/cancel")).status_code == 403


async def test_a_run_whose_result_is_not_as_expected_is_unverified_on_every_page_with_the_reason(admin: Admin) -> None:
    store, miss = admin.site.app.store, "url: no file was found"
    claim = started(store, store.now(), title="Publish the report", tenant="local", expect={"field": "url"})
    store.claims.settle([settlement(claim, error=miss, result={"text": "done"})])
    shown = unescape((await admin.get(f"/runs/{claim.run.id}")).text)
    assert '<span class="state" data-state="unverified">unverified</span>' in shown
    assert re.search(rf"Why it is unverified</h2>\s*<p>{miss}</p>", shown)
    assert re.search(r'<dt>Expects</dt><dd><pre[^>]*>{\s*"field": "url"', shown)
    assert re.search(r'data-name="Outcome"><span class="state" data-state="unverified">unverified<', shown)
    assert 'data-state="succeeded"' not in shown.partition("<h2>Events")[0]
    for path in ("/runs?q=publish", "/runs?state=unverified"):
        row = unescape((await admin.get(path)).text).partition("<tbody>")[2]
        assert ('data-state="unverified"' in row, miss in row) == (True, True), path
    assert 'data-state="unverified"' in (await admin.get("/timeline?window=24h")).text


async def form_of(admin: Admin, page: str, action: str) -> dict[str, str]:
    """Return what the form of a page for this action hides."""
    html = (await admin.get(page)).text
    form = re.search(rf'action="{re.escape(action)}">(.*?)</form>', html, re.DOTALL)
    assert form is not None, action
    return {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form[1])}


@pytest.mark.parametrize(
    ("act", "typed"),
    [("reschedule", {"when": "in 9 hours"}), ("pause", {"until": "in 1 hour"}), ("cancel", {"reason": "moot"})],
)
async def test_a_form_of_a_page_that_is_out_of_date_does_nothing_and_keeps_what_was_typed(
    admin: Admin, act: str, typed: dict[str, str]
) -> None:
    scheduler = admin.site.app.scheduler
    made = scheduler.schedule("Feed the cat", when="in 3 hours").record
    action = f"/admin/runs/{made.run.id}/{act}"
    opened = await form_of(admin, f"/runs/{made.run.id}", action)
    scheduler.reschedule(made.task.id, when="in 5 hours")
    before = scheduler.get(made.task.id).record
    refused = await admin.http.post(action, data={**opened, **typed}, headers={"Origin": ORIGIN})
    assert refused.status_code == 409
    assert scheduler.get(made.task.id).record == before
    page = unescape(refused.text)
    assert "The task was changed since this page was opened" in page
    assert "Nothing was done." in page
    [(name, value)] = typed.items()
    assert f'<input name="{name}" value="{value}"' in page
    again = re.findall(r'name="(\w+)" value="([^"]*)"', page.partition(f'action="{action}"')[2].partition("</form>")[0])
    done = await admin.http.post(action, data=dict(again), headers={"Origin": ORIGIN})
    assert done.status_code == 303, done.text
    assert scheduler.get(made.task.id).record != before


async def test_run_now_on_a_page_that_is_out_of_date_runs_nothing_again(admin: Admin) -> None:
    run = run_of(admin, State.FAILED)
    task = admin.site.app.scheduler.past.run(run).record.task
    answers = [await admin.post(f"/runs/{run}/run") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [303, 409, 409]
    assert f"This run of {task.title!r} is over" in unescape(answers[-1].text)
    assert admin.site.app.scheduler.get(task.id).record.run.generation == 2


async def test_run_now_of_a_run_that_has_ended_since_its_page_was_opened_runs_nothing_again(admin: Admin) -> None:
    scheduler, store = admin.site.app.scheduler, admin.site.app.store
    made = scheduler.schedule("Feed the cat", action="reminder", when="in 3 hours").record
    one = f"/admin/runs/{made.run.id}/run"
    opened = await form_of(admin, f"/runs/{made.run.id}", one)
    page = (await admin.get(f"/runs?state=to_come&task={made.task.id}")).text
    picked = dict(re.findall(r'name="(pick|open)" value="([^"]*)"', page))
    assert picked == {"pick": f"{made.run.id} open"}, "a row that is not picked sends nothing"
    scheduler.act(made.task.id, "run_now")
    store.claims.settle([settlement(restarted(store, store.tasks.get("local", made.task.id)))])
    refused = await admin.http.post(one, data=opened, headers={"Origin": ORIGIN})
    text = "This run of 'Feed the cat' has ended since the page was opened. Nothing was done to the task."
    assert (refused.status_code, text in unescape(refused.text)) == (409, True)
    await admin.post("/runs/change", **picked, change="run_now", after="/admin/runs")
    assert f"0. 1 refused: {text}" in unescape((await admin.get("/runs")).text)
    assert scheduler.get(made.task.id).record.run.generation == 1
    again = await form_of(admin, f"/runs/{made.run.id}", one)
    done = await admin.http.post(one, data=again, headers={"Origin": ORIGIN})
    assert done.status_code == 303, done.text
    assert scheduler.get(made.task.id).record.run.generation == 2


async def test_the_id_of_a_chain_leads_to_its_step_that_is_next(admin: Admin) -> None:
    steps: Any = [{"name": "fetch", "when": "in 1 hour"}, {"name": "report", "after": ["fetch"], "when": "in 1 hour"}]
    chain = admin.site.app.scheduler.schedule("Book", steps=steps)
    assert chain.chain is not None
    first = chain.chain.steps[0].task_id
    answer = await admin.get(f"/tasks/{chain.record.task.id}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/admin/tasks/{first}")
    assert (await admin.get("/tasks/c_000000000000")).status_code == 404
