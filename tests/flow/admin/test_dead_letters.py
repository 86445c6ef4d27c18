"""The page of dead letters: they are found, counted before anything is done, replayed and discarded with a reason."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter
from duetime.scheduler.history.dead_letters import DeadLetterFilter, LetterState
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.task import State
from duetime.server.admin.bulk.undo import NO_UNDO
from sqlalchemy import update

from tests.builders import restarted, settlement, started
from tests.flow.admin.conftest import ORIGIN, Admin, Open

pytestmark = pytest.mark.anyio


def dead(admin: Admin, title: str, *, tenant: str = "local", reason: str = "502 Bad Gateway", **values: Any) -> str:
    """Make a dead letter and return its run."""
    store = admin.site.app.store
    claim = started(store, store.now(), title=title, tenant=tenant, **values)
    store.claims.settle([settlement(claim, State.FAILED, reason=reason, dead_letter=True)])
    return claim.run.id


def states(admin: Admin, tenant: str = "local") -> dict[str, str]:
    """Return what became of each letter of a tenant."""
    every = DeadLetterFilter(state=None)
    letters, _ = admin.site.app.store.dead_letters.page(tenant, every, limit=100)
    return {letter.title: letter.state.value for letter in letters}


def entries(admin: Admin, tenant: str) -> list[AuditEntry]:
    return list(admin.site.app.store.audit.page(tenant, AuditFilter(), limit=100).entries)


def fields_of(html: str) -> dict[str, str]:
    """Return what the form of the question sends back."""
    form = re.search(r'action="/admin/dead/close[^"]*">(.*?)</form>', html, re.DOTALL)
    assert form is not None, html
    named = re.findall(r'<input[^>]*name="(\w+)"[^>]*value="([^"]*)"', form[1])
    return {name: unescape(value) for name, value in named}


async def answered(admin: Admin, query: str, **fields: Any) -> str:
    """Ask by an address, say yes, and return the sentence of the page that follows."""
    sent = fields_of((await admin.get(f"/dead?{query}")).text)
    done = await admin.http.post("/admin/dead/close", data={**sent, **fields}, headers={"Origin": ORIGIN})
    assert done.status_code == 303, done.text
    said = re.search(r'role="status">([^<]*)<', (await admin.get(done.headers["location"][6:])).text)
    assert said is not None
    return unescape(said[1])


async def test_a_dead_letter_says_what_happened_why_and_how_often_it_was_tried(admin_page: Open) -> None:
    admin = await admin_page()
    assert "No dead letters" in (await admin.get("/dead")).text
    run = dead(admin, "Push to the CRM", action="reminder")
    dead(admin, "Nightly import", action="reminder", labels=("reports",), reason="disk is full")
    page = unescape((await admin.get("/dead")).text)
    for shown in ("Push to the CRM", "502 Bad Gateway", "disk is full", "1 attempt", f"/admin/runs/{run}"):
        assert shown in page
    for found in ("q=gateway", "q=CRM", "since=yesterday&q=crm"):
        page = (await admin.get(f"/dead?{found}")).text
        assert ("Push to the CRM" in page, "Nightly import" in page) == (True, False), found
    assert "Push to the CRM" not in (await admin.get("/dead?label=reports")).text
    assert "Nothing matches" in (await admin.get("/dead?until=yesterday")).text
    assert (await admin.get("/dead?state=gone")).status_code == 400
    assert (await admin.get("/dead?close=burn")).status_code == 400
    rows = json.loads((await admin.get("/dead?q=crm&format=json")).text)["dead_letters"]
    assert [(row["run_id"], row["attempts"]) for row in rows] == [(run, 1)]


async def test_a_replay_of_a_filter_is_counted_first_and_does_no_more_than_was_counted(admin_page: Open) -> None:
    admin = await admin_page()
    for number in range(12):
        dead(admin, f"Push {number:02}")
    dead(admin, "Import")
    page = (await admin.get("/dead?q=push&close=replay")).text
    assert "Replay 12 dead letters?" in page
    assert states(admin) == {**{f"Push {number:02}": "open" for number in range(12)}, "Import": "open"}
    asked = fields_of(page)
    dead(admin, "Push late")
    done = await admin.http.post(
        "/admin/dead/close", data={**asked, "most": "3", "reason": "the CRM is back"}, headers={"Origin": ORIGIN}
    )
    assert done.headers["location"] == "/admin/dead?q=push"
    assert "Replayed 3. 9 more match." in (await admin.get("/dead?q=push")).text
    replayed = {title for title, state in states(admin).items() if state == LetterState.REPLAYED}
    assert replayed == {"Push 00", "Push 01", "Push 02"}, "the oldest"
    assert {(each.kind, each.reason) for each in entries(admin, "local")} == {
        ("dead_letter_replayed", "the CRM is back")
    }
    assert "its replay" in (await admin.get("/dead?state=replayed")).text
    assert await answered(admin, "q=push&close=replay", reason="and the rest", most="100") == "Replayed 10."


@pytest.mark.parametrize("by", ["pick={run}", "q=import"])
async def test_a_letter_that_a_replay_would_leave_is_named_with_the_reason_before_it_is_made(
    admin_page: Open, by: str
) -> None:
    admin = await admin_page()
    run = dead(admin, "Import")
    task_id = admin.site.app.store.dead_letters.get("local", run).task_id
    state = admin.site.app.scheduler.act(task_id, "run_now").record.run.state
    as_left_open = {"closed_at": None, "replayed_as": None, "replay_number": None}
    admin.site.app.store._database.write(
        lambda connection: connection.execute(update(dead_letters).values(as_left_open))
    )
    page = unescape((await admin.get(f"/dead?{by.format(run=run)}&close=replay")).text)
    assert "Nothing to replay" in page
    assert f"1 would stay: {task_id} is {state} already." in page
    dead(admin, "Import again")
    page = unescape((await admin.get("/dead?q=import&close=replay")).text)
    assert "Replay 1 dead letter?" in page
    assert f"1 would stay: {task_id} has a run that is ready" in page


async def test_picked_letters_are_discarded_with_a_reason_and_one_that_is_gone_is_told(admin_page: Open) -> None:
    admin = await admin_page()
    first, second, third = [dead(admin, title) for title in ("One", "Two", "Three")]
    asked = f"pick={first}&pick={second}&pick=r_gone&close=discard"
    page = (await admin.get(f"/dead?{asked}")).text
    assert "Discard 2 dead letters?" in page
    assert "<li>One</li><li>Two</li>" in page
    bare = {"csrf_token": await admin.token(), "close": "discard", "pick": [first, second]}
    refused = await admin.http.post("/admin/dead/close", data=bare, headers={"Origin": ORIGIN})
    assert (refused.status_code, set(states(admin).values())) == (400, {"open"})
    admin.site.app.scheduler.letters.discard([second], reason="by another one")
    bare["reason"] = "not needed"
    done = await admin.http.post("/admin/dead/close", data=bare, headers={"Origin": ORIGIN})
    said = unescape((await admin.get("/dead")).text)
    assert done.status_code == 303
    assert re.findall(r'role="status">([^<]*)<', said) == [
        f"Discarded 1. 1 stay: the dead letter of {second} was discarded already."
    ]
    assert states(admin) == {"One": "discarded", "Two": "discarded", "Three": "open"}
    assert "Nothing to replay" in (await admin.get(f"/dead?pick={first}&close=replay")).text
    assert third in (await admin.get("/dead")).text


async def test_a_wrong_maximum_is_refused_with_what_is_accepted(admin_page: Open) -> None:
    admin = await admin_page()
    dead(admin, "One")
    for most in ("0", "", "-1", "1e3", "1001", "99999", "\u0663"):
        refused = await admin.post("/dead/close", close="replay", most=most, reason="why")
        assert (most, refused.status_code, states(admin)) == (most, 400, {"One": "open"})
        assert "1 to 1,000" in refused.text


async def test_the_page_of_a_run_replays_and_its_letter_is_closed(admin_page: Open) -> None:
    admin = await admin_page()
    run = dead(admin, "Push")
    page = (await admin.get(f"/runs/{run}")).text
    assert 'action="/admin/dead/close"' in page
    assert f'action="/admin/runs/{run}/run"' not in page, "or its letter would stay open"
    task = admin.site.app.scheduler.past.run(run).record.task.id
    done = await admin.post("/dead/close", close="replay", pick=run, after=f"/admin/tasks/{task}")
    assert (done.headers["location"], states(admin)) == (f"/admin/tasks/{task}", {"Push": "replayed"})
    assert "Its dead letter was" in (await admin.get(f"/runs/{run}")).text


async def test_a_reader_sees_letters_and_cannot_close_them(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    run = dead(admin, "Push", tenant="acme")
    await admin.enter("admin:read")
    for path in ("/dead", "/dead?close=replay", f"/runs/{run}"):
        page = (await admin.get(path)).text
        assert "Push" in page
        assert "dead/close" not in page
        assert "close=" not in page
    refused = await admin.post("/dead/close", close="replay", pick=run)
    assert (refused.status_code, states(admin, "acme")) == (403, {"Push": "open"})
    await admin.enter("admin")
    sent = {"close": "replay", "pick": run}
    forged = await admin.http.post("/admin/dead/close", data=sent, headers={"Origin": ORIGIN})
    assert (forged.status_code, states(admin, "acme")) == (403, {"Push": "open"})


async def test_letters_of_another_tenant_are_not_there_and_an_operator_closes_them_in_its_log(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    ours, theirs = dead(admin, "Ours", tenant="acme"), dead(admin, "Theirs", tenant="globex")
    await admin.enter("admin", tenant="globex")
    assert "Ours" not in (await admin.get("/dead?tenant=acme")).text
    assert (await admin.post("/dead/close?tenant=acme", close="replay", pick=ours)).status_code == 404
    await admin.post("/dead/close?tenant=acme", close="replay", most="9", reason="mine")
    assert (states(admin, "acme"), states(admin, "globex")) == ({"Ours": "open"}, {"Theirs": "replayed"})

    await admin.enter("admin", tenant="house", user="root")
    assert "Choose a tenant first" in (await admin.get("/dead?close=replay")).text
    assert (await admin.post("/dead/close", close="replay", most="9", reason="all")).status_code == 400
    assert "Replay 1 dead letter?" in (await admin.get("/dead?close=replay&tenant=acme")).text
    both = await admin.post("/dead/close", close="discard", pick=[ours, theirs], reason="by the house")
    assert both.status_code == 303
    assert "Discarded 1. 1 stay" in unescape((await admin.get("/dead")).text)
    told = [(each.actor, each.actor_tenant, each.reason) for each in entries(admin, "acme") if each.subject == ours]
    assert told == [("root", "house", "by the house")]


async def test_the_question_of_an_address_survives_any_text(admin_page: Open) -> None:
    admin = await admin_page()
    dead(admin, 'A "quoted" & <b>bold</b>')
    query = "close=discard&q=" + quote('"quoted" & <b>')
    page = (await admin.get(f"/dead?{query}")).text
    assert "Discard 1 dead letter?" in page
    assert "It stays in the history and does not run again." in page
    assert "<b>bold" not in page
    assert await answered(admin, query, reason="x") == "Discarded 1."


async def undone(admin: Admin, page: str) -> str:
    """Press the undo button of a page, and return the sentence of the page that follows."""
    form = re.search(r'action="/admin/dead/undo[^"]*">(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    sent: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input[^>]*name="(\w+)"[^>]*value="([^"]*)"', form[1]):
        sent.setdefault(name, []).append(unescape(value))
    done = await admin.http.post("/admin/dead/undo", data=sent, headers={"Origin": ORIGIN})
    assert done.status_code == 303, done.text
    followed = (await admin.get(done.headers["location"][6:])).text
    said = re.search(r'role="status">([^<]*)<', followed)
    assert said is not None
    assert "/admin/dead/undo" not in followed, "an undo has no undo"
    return unescape(said[1])


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_a_closed_letter_is_taken_back_by_the_button_next_to_it_and_a_second_press_says_the_same(
    admin_page: Open, verb: str
) -> None:
    admin = await admin_page()
    for title in ("One", "Two"):
        dead(admin, title)
    page = (await admin.get(f"/dead?close={verb}")).text
    asked = {**fields_of(page), "reason": "they are needed"}
    await admin.http.post("/admin/dead/close", data=asked, headers={"Origin": ORIGIN})
    assert "open" not in states(admin).values()
    shown = (await admin.get("/dead")).text
    assert "/admin/dead/undo" not in (await admin.get("/dead")).text, "it is shown once"
    assert await undone(admin, shown) == f"Taken back: the {verb} of 2 tasks."
    assert states(admin) == {"One": "open", "Two": "open"}
    assert await undone(admin, shown) == f"Taken back: the {verb} of 2 tasks."
    assert states(admin) == {"One": "open", "Two": "open"}


async def test_a_form_that_is_sent_again_after_its_undo_does_not_say_that_it_closed_letters(admin_page: Open) -> None:
    admin = await admin_page()
    dead(admin, "One")
    asked = {**fields_of((await admin.get("/dead?close=discard")).text), "reason": "not needed"}
    await admin.http.post("/admin/dead/close", data=asked, headers={"Origin": ORIGIN})
    assert await undone(admin, (await admin.get("/dead")).text) == "Taken back: the discard of 1 task."
    again = await admin.http.post("/admin/dead/close", data=asked, headers={"Origin": ORIGIN})
    assert again.status_code == 409
    assert "This call was taken back. Make a new one to close letters again." in again.text
    assert states(admin) == {"One": "open"}


async def test_letters_picked_from_several_tenants_are_taken_back_in_each(admin_page: Open) -> None:
    admin = await admin_page()
    picked = [dead(admin, "Ours"), dead(admin, "Theirs", tenant="globex")]
    bare = {"csrf_token": await admin.token(), "close": "discard", "pick": picked, "reason": "not needed"}
    await admin.http.post("/admin/dead/close", data=bare, headers={"Origin": ORIGIN})
    shown = (await admin.get("/dead")).text
    assert await undone(admin, shown) == "Taken back: the discard of 2 tasks."
    assert (states(admin), states(admin, "globex")) == ({"Ours": "open"}, {"Theirs": "open"})


@pytest.mark.parametrize(
    ("have_run", "said"), [(1, "Taken back: the replay of 1 task. "), (2, "Nothing was taken back")]
)
async def test_the_undo_of_replays_of_which_some_have_run_says_what_it_took_back_and_why_the_rest_stays(
    admin_page: Open, have_run: int, said: str
) -> None:
    admin = await admin_page()
    store = admin.site.app.store
    tasks = [store.dead_letters.get("local", dead(admin, title)).task_id for title in ("One", "Two")]
    asked = {**fields_of((await admin.get("/dead?close=replay")).text), "reason": "they are needed"}
    await admin.http.post("/admin/dead/close", data=asked, headers={"Origin": ORIGIN})
    shown = (await admin.get("/dead")).text
    for task in tasks[:have_run]:
        store.claims.settle([settlement(restarted(store, store.tasks.get("local", task)))])
    told = await undone(admin, shown)
    assert told.startswith(said)
    assert (tasks[0] in told, "0 tasks" in told) == (True, False)


async def test_the_question_of_a_replay_names_the_number_that_it_would_replay(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.admin.pages.dead.USUAL_LETTERS_COUNT", 3)
    admin = await admin_page()
    picked = [dead(admin, f"Push {number}") for number in range(5)]
    page = (await admin.get("/dead?q=push&close=replay")).text
    assert "Replay 3 of 5 dead letters?" in page
    assert fields_of(page)["most"] == "3"
    assert (
        "Replay 5 dead letters?"
        in (await admin.get("/dead?close=replay&" + urlencode({"pick": picked}, doseq=True))).text
    )


async def test_a_notice_appears_also_where_a_cookie_has_no_room_for_its_undo(admin_page: Open) -> None:
    admin = await admin_page()
    picked = [dead(admin, "Theirs", tenant=f"{'subsidiary-' * 9}{number}") for number in range(40)]
    bare = {"csrf_token": await admin.token(), "close": "discard", "pick": picked, "reason": "not needed"}
    done = await admin.http.post("/admin/dead/close", data=bare, headers={"Origin": ORIGIN})
    assert max(map(len, done.headers.get_list("set-cookie"))) < 4096, "browsers drop a larger one"
    shown = (await admin.get("/dead")).text
    assert f"Discarded 40. {NO_UNDO}" in shown
    assert "/admin/dead/undo" not in shown


@pytest.mark.parametrize(("verb", "became"), [("replay", "replayed"), ("discard", "discarded")])
async def test_a_form_that_is_sent_again_closes_no_others(admin_page: Open, verb: str, became: str) -> None:
    admin = await admin_page()
    for number in range(9):
        dead(admin, f"Push {number}")
    asked = fields_of((await admin.get(f"/dead?q=push&close={verb}")).text)
    sent = {**asked, "most": "3", "reason": "the CRM is back"}
    for _ in range(2):
        done = await admin.http.post("/admin/dead/close", data=sent, headers={"Origin": ORIGIN})
        assert done.status_code == 303, done.text
        assert f"{became.title()} 3. 6 more match." in (await admin.get("/dead?q=push")).text
    assert [*states(admin).values()].count(became) == 3
    other = await admin.http.post("/admin/dead/close", data={**sent, "most": "6"}, headers={"Origin": ORIGIN})
    assert other.status_code == 409
    assert [*states(admin).values()].count(became) == 3
    assert await answered(admin, f"q=push&close={verb}", reason="and the rest") == f"{became.title()} 6."
