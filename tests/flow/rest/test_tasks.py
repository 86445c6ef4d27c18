"""Tasks over REST: the payloads of the tools, revisions as entity tags, keys that make a repeat harmless, pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import made, sent

pytestmark = pytest.mark.anyio


async def test_a_task_is_scheduled_as_the_tool_does_and_found_at_its_address(site: Site) -> None:
    answer = await sent(site, "POST", "/tasks", body={"title": "Call John", "when": "in 2 hours", "labels": ["x"]})
    told = await site.call(None, "get_task", task_id=answer.json()["id"])
    shown = await site.http.get(answer.headers["Location"])

    assert answer.status_code == 201
    assert shown.status_code == 200
    changing = dict.fromkeys(("created", "now", "effect", "when", "undo", "undo_until"))
    assert {**answer.json(), **changing} == {**told["structuredContent"], **changing}
    assert answer.json()["when"]["utc"] == told["structuredContent"]["when"]["utc"]
    assert shown.json()["id"] == told["structuredContent"]["id"]


async def test_a_dry_run_stores_nothing(site: Site) -> None:
    answer = await sent(site, "POST", "/tasks", body={"title": "x", "when": "in 2 hours", "dry_run": True})
    listed = await sent(site, "GET", "/tasks")

    assert (answer.status_code, answer.json()["id"]) == (200, "dry-run")
    assert "ETag" not in answer.headers
    assert listed.json()["tasks"] == []


async def test_a_payload_that_is_none_is_answered_with_one_of_the_action_of_the_task(site: Site) -> None:
    hook = {"title": "x", "when": "tomorrow", "action": "webhook", "payload": {"url": "https://example.com/hook"}}
    path = f"/tasks/{(await sent(site, 'POST', '/tasks', body=hook)).json()['id']}"
    wrong = await sent(site, "PATCH", path, body={"payload": "new"})
    assert "'url': 'https://example.com/hook', 'method': 'POST'" in wrong.json()["detail"]
    assert "message" not in wrong.json()["detail"]


async def test_a_task_names_the_conversation_that_asked_for_it(site: Site) -> None:
    origin = {"client": "my-app", "thread": "7"}
    made_ = await sent(site, "POST", "/tasks", body={"title": "x", "when": "in 2 hours", "origin": origin})
    shown = await site.http.get(made_.headers["Location"])
    wrong = {"title": "x", "when": "in 2 hours", "origin": {"client": "my-app", "thread": "7 8"}}
    refused = await sent(site, "POST", "/tasks", body=wrong)

    assert shown.json()["origin"] == made_.json()["origin"] == origin
    assert refused.status_code == 422
    assert refused.json()["argument"] == "origin.thread"


async def test_a_repeat_with_the_same_key_makes_no_second_task(site: Site) -> None:
    body = {"title": "x", "when": "in 2 hours"}
    first, second = [
        await sent(site, "POST", "/tasks", body=body, headers={"Idempotency-Key": "k-1"}) for _ in range(2)
    ]
    without = [await sent(site, "POST", "/tasks", body=body) for _ in range(2)]

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert len({each.json()["id"] for each in (first, *without)}) == 3


async def test_a_key_may_be_a_template_in_its_header_and_in_a_batch(site: Site) -> None:
    body = {"title": "x", "repeat": "every day at 9:00", "labels": ["account:acme"]}
    key = "{tenant}:{label.account}:{window}"
    made_ = await sent(site, "POST", "/tasks", body=body, headers={"Idempotency-Key": key})
    again = await sent(site, "POST", "/tasks/batch", body={"tasks": [{**body, "idempotency_key": key}]})
    shown = await site.http.get(made_.headers["Location"])
    wrong = await sent(site, "POST", "/tasks", body=body, headers={"Idempotency-Key": "{label.acount}:{window}"})

    assert (made_.status_code, [each["id"] for each in again.json()["tasks"]]) == (201, [made_.json()["id"]])
    assert shown.json()["idempotency_key"]["template"] == key
    assert re.fullmatch(r".*:acme:\d{4}-\d\d-\d\dT\d\d:\d\dZ", shown.json()["idempotency_key"]["run"])
    assert (wrong.status_code, wrong.json()["argument"]) == (422, "idempotency_key")


async def test_a_key_that_made_another_task_is_refused(site: Site) -> None:
    key = {"Idempotency-Key": "k-1"}
    await sent(site, "POST", "/tasks", body={"title": "x", "when": "in 2 hours"}, headers=key)
    answer = await sent(site, "POST", "/tasks", body={"title": "y", "when": "in 2 hours"}, headers=key)

    assert answer.status_code == 422
    assert answer.json()["code"] == "idempotency_conflict"
    assert "title was 'x', now 'y'" in answer.json()["detail"]


async def test_a_change_is_made_at_the_revision_that_it_names_or_not_at_all(site: Site) -> None:
    task = await made(site)
    path, tag = f"/tasks/{task['id']}", {"If-Match": '"1"'}
    changed = await sent(site, "PATCH", path, body={"title": "Call Ann"}, headers=tag)
    late = await sent(site, "PATCH", path, body={"title": "Call Eve"}, headers=tag)
    any_revision = await sent(site, "PATCH", path, body={"title": "Call Joe"}, headers={"If-Match": "*"})

    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert late.status_code == 412
    assert late.json()["revision"] == 2
    assert "title «Call John» -> «Call Ann»" in late.json()["detail"]
    assert any_revision.json()["title"] == "Call Joe"


async def test_one_of_several_tags_has_to_be_that_of_the_task(site: Site) -> None:
    path = f"/tasks/{(await made(site))['id']}"
    tags = {"If-Match": '"7", "1", "3"'}
    lines = [("If-Match", '"7"'), ("If-Match", '"3", "2"')]
    first = await sent(site, "PATCH", path, body={"title": "Call Ann"}, headers=tags)
    second = await sent(site, "PATCH", path, body={"title": "Call Eve"}, headers=tags)
    third = await site.http.patch(f"/v1{path}", json={"title": "Call Joe"}, headers=lines)

    assert (first.status_code, first.headers["ETag"]) == (200, '"2"')
    assert (second.status_code, second.json()["revision"]) == (412, 2)
    assert (third.status_code, third.headers["ETag"]) == (200, '"3"')


async def test_a_dry_run_of_a_change_is_refused_as_the_change_would_be_and_names_the_revision(site: Site) -> None:
    path = f"/tasks/{(await made(site))['id']}"
    tried = {"title": "Call Ann", "dry_run": True}
    shown = await sent(site, "PATCH", path, body=tried, headers={"If-Match": '"1"', "Idempotency-Key": "k"})
    stale = await sent(site, "PATCH", path, body=tried, headers={"If-Match": '"9"'})
    await sent(site, "PATCH", path, body={"title": "Call Ann"}, headers={"Idempotency-Key": "k"})
    other = await sent(site, "PATCH", path, body={**tried, "title": "x"}, headers={"Idempotency-Key": "k"})
    repeat = await sent(site, "PATCH", path, body=tried, headers={"Idempotency-Key": "k"})

    assert (shown.status_code, shown.headers["ETag"], shown.json()["title"]) == (200, '"1"', "Call Ann")
    assert shown.json()["warnings"] == ["dry run: nothing was stored"]
    assert (stale.status_code, stale.json()["code"]) == (412, "stale_revision")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")
    assert (repeat.status_code, repeat.headers["ETag"]) == (200, '"2"')
    assert repeat.json()["warnings"][1].startswith("this repeats an earlier call")


async def test_an_empty_list_empties_and_an_absent_one_leaves_as_it_was(site: Site) -> None:
    task = await made(site, labels=["a", "b"])
    path = f"/tasks/{task['id']}"
    kept = await sent(site, "PATCH", path, body={"title": "y"})
    emptied = await sent(site, "PATCH", path, body={"labels": []})

    assert kept.json()["labels"] == ["a", "b"]
    assert "labels" not in emptied.json()


async def test_every_button_of_a_card_has_a_path(site: Site) -> None:
    task = await made(site, repeat="every day at 9:00", when="tomorrow")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("pause", {}),
        ("resume", {}),
        ("pause", {"pause_until": "in 2 hours"}),
        ("resume", {}),
        ("snooze", {"minutes": 10}),
        ("skip_next", {}),
        ("run_now", {}),
        ("cancel", {"reason": "it rains"}),
    ]
    seen = {}
    for name, body in calls:
        answer = await sent(site, "POST", f"/tasks/{task['id']}/{name}", body=body)
        assert answer.status_code == 200, answer.text
        seen[name] = answer.json()
    undone = await sent(site, "POST", f"/tasks/{task['id']}/undo", body={"undo": seen["cancel"]["undo"]})

    assert (seen["pause"]["paused"], "paused_until" in seen["pause"]) == (True, True)
    assert not {"paused", "paused_until"} & set(seen["resume"])
    assert seen["cancel"]["state"] == "cancelled"
    assert undone.json()["state"] == "scheduled"


async def test_an_action_without_arguments_needs_no_body(site: Site) -> None:
    task = await made(site)
    answer = await sent(site, "POST", f"/tasks/{task['id']}/pause")
    assert answer.json()["paused"] is True


async def test_pages_are_linked_to_the_last_one(site: Site) -> None:
    ids = [(await made(site, title=f"n {hours}", when=f"in {hours} hours"))["id"] for hours in range(1, 6)]
    found, path = list[str](), "/v1/tasks?limit=2&state=open&before=in%209%20days"
    for page in range(3):
        answer = await site.http.get(path)
        found += [row["id"] for row in answer.json()["tasks"]]
        link = answer.headers.get("Link", "")
        assert bool(link) == ("cursor" in answer.json()) == (page < 2)
        path = link.partition(">")[0].removeprefix("<")

    assert found == ids


async def test_a_list_has_the_filters_of_the_tool(site: Site) -> None:
    await made(site, title="Pay rent", labels=["home"])
    await made(site, title="Call John")
    for query in ("query=rent", "label=home", "state=scheduled&query=rent&limit=1", "query=rent&after=yesterday"):
        rows = (await sent(site, "GET", f"/tasks?{query}")).json()["tasks"]
        assert [row["title"] for row in rows] == ["Pay rent"], query


async def test_a_task_is_shown_with_its_history_and_reading_marks_nothing_as_read(site: Site) -> None:
    task = await made(site)
    await sent(site, "POST", f"/tasks/{task['id']}/pause")
    shown = (await sent(site, "GET", f"/tasks/{task['id']}?history=true")).json()
    plain = (await sent(site, "GET", f"/tasks/{task['id']}")).json()

    assert [event["kind"] for event in shown["history"]["events"]] == ["paused", "created"]
    assert "history" not in plain


async def test_a_task_says_why_it_is_not_running(site: Site) -> None:
    task = await made(site)
    told = (await sent(site, "GET", f"/tasks/{task['id']}/explain")).json()

    assert told["schema"] == "duetime.explanation/1"
    assert told["task"] == task["id"]
    assert (told["state"], told["stands"]) == ("scheduled", "scheduled")
    assert told["waiting_for"]

    await sent(site, "PATCH", f"/tasks/{task['id']}", json={"pause": True})
    held = (await sent(site, "GET", f"/tasks/{task['id']}/explain")).json()
    assert (held["state"], held["stands"]) == ("scheduled", "paused")


async def test_a_batch_is_stored_whole_and_in_order(site: Site) -> None:
    tasks = [{"title": f"n {n}", "when": "in 2 hours", "idempotency_key": f"k-{n}"} for n in range(200)]
    first = await sent(site, "POST", "/tasks/batch", body={"tasks": tasks})
    again = await sent(site, "POST", "/tasks/batch", body={"tasks": tasks})

    assert (first.status_code, again.status_code) == (201, 200)
    assert [task["title"] for task in first.json()["tasks"]] == [f"n {n}" for n in range(200)]
    assert [task["id"] for task in first.json()["tasks"]] == [task["id"] for task in again.json()["tasks"]]


async def test_a_repeat_of_a_batch_with_the_same_key_makes_no_second_task(site: Site) -> None:
    tasks = [{"title": "a", "when": "in 1 hour"}, {"title": "b", "when": "in 2 hours", "idempotency_key": "own"}]
    key = {"Idempotency-Key": "k-1"}
    first, second = [await sent(site, "POST", "/tasks/batch", body={"tasks": tasks}, headers=key) for _ in range(2)]
    other = [{"title": "c", "when": "in 1 hour"}]
    conflict = await sent(site, "POST", "/tasks/batch", body={"tasks": other}, headers=key)
    alone = await sent(
        site, "POST", "/tasks", body={"title": "b", "when": "in 2 hours"}, headers={"Idempotency-Key": "own"}
    )
    more = await sent(site, "POST", "/tasks/batch", body={"tasks": tasks}, headers={"Idempotency-Key": "k-2"})

    ids = [task["id"] for task in first.json()["tasks"]]
    assert (first.status_code, second.status_code, alone.status_code) == (201, 200, 200)
    assert [task["id"] for task in second.json()["tasks"]] == ids
    assert alone.json()["id"] == ids[1]
    assert (conflict.status_code, conflict.json()["code"]) == (422, "idempotency_conflict")
    assert [task["id"] in ids for task in more.json()["tasks"]] == [False, True]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_key_of_a_batch_of_another_length_is_refused_and_stores_nothing(site: Site, count: int) -> None:
    tasks = [{"title": f"n {n}", "when": "in 1 hour"} for n in range(3)]
    key = {"Idempotency-Key": "k-1"}
    lengths = (2, count, 2)
    first, other, again = [
        await sent(site, "POST", "/tasks/batch", body={"tasks": tasks[:n]}, headers=key) for n in lengths
    ]

    assert (first.status_code, other.status_code, again.status_code) == (201, 422, 200)
    assert other.json()["code"] == "idempotency_conflict"
    assert "2 of them" not in other.json()["detail"]
    assert len((await sent(site, "GET", "/tasks")).json()["tasks"]) == 2


@pytest.mark.parametrize(("first", "then"), [("kkok", "kk"), ("kkok", "kkk"), ("kok", "kk"), ("kkk", "kok")])
async def test_a_key_of_a_batch_is_refused_where_other_places_have_their_key_from_it(
    site: Site, first: str, then: str
) -> None:
    tasks = [{"title": f"n {n}", "when": "in 1 hour"} for n in range(4)]
    key = {"Idempotency-Key": "k-1"}
    stored, refused, again = [
        await sent(site, "POST", "/tasks/batch", headers=key, body={"tasks": [
            {**task, "idempotency_key": f"own-{task['title']}"} if of == "o" else task
            for task, of in zip(tasks, places, strict=False)
        ]})
        for places in (first, then, first)
    ]  # fmt: skip

    assert (stored.status_code, refused.status_code, again.status_code) == (201, 422, 200)
    assert refused.json()["code"] == "idempotency_conflict"
    assert f"list of tasks was 'another one', now 'one of {len(then)}'" in refused.json()["detail"]
    assert len((await sent(site, "GET", "/tasks")).json()["tasks"]) == len(first)


async def test_a_key_is_refused_where_a_second_request_would_act_again(site: Site) -> None:
    key = {"Idempotency-Key": "k-1"}
    for method, path, body in (
        ("POST", "/keys", {"name": "x"}),
        ("POST", "/retention/run", {}),
        ("PATCH", "/policy", {"policy": {"shares.low": 0.12}}),
    ):
        refused = await sent(site, method, path, body=body, headers=key)
        assert (refused.status_code, refused.json()["argument"]) == (400, "Idempotency-Key")
        assert "A key is taken by POST /v1/tasks, " in refused.json()["detail"]
    assert site.app.store.api_keys.all() == []
    assert (await sent(site, "GET", "/tasks", headers=key)).status_code == 200


async def test_a_key_of_two_tasks_of_a_batch_is_refused_by_its_place(site: Site) -> None:
    tasks = [{"title": title, "when": "in 2 hours", "idempotency_key": "k"} for title in ("x", "requests[0]")]
    answer = await sent(site, "POST", "/tasks/batch", body={"tasks": tasks})

    assert (answer.status_code, answer.json()["argument"]) == (422, "tasks[1].idempotency_key")
    assert answer.json()["detail"].startswith(
        "tasks[1].idempotency_key: 'k' is that of tasks[0] too, with other content (title). Accepted: a key of its own"
    )


async def test_a_batch_with_a_wrong_task_stores_none_and_names_each_place(site: Site) -> None:
    good = {"title": "x", "when": "in 2 hours"}
    unread = {"tasks": [good, {"title": "y", "whem": "now"}, {"title": 5}]}
    strange = {"tasks": [good, {"title": "y", "when": "someday maybe"}, {"title": "z"}]}
    answers = [await sent(site, "POST", "/tasks/batch", body=body) for body in (unread, strange)]
    many = await sent(site, "POST", "/tasks/batch", body={"tasks": [good] * 201})

    assert [answer.status_code for answer in answers] == [400, 422]
    assert re.findall(r"tasks\[\d\]\.\w+", answers[0].json()["detail"]) == ["tasks[1].whem", "tasks[2].title"]
    assert re.findall(r"tasks\[\d\]\.\w+", answers[1].json()["detail"]) == ["tasks[1].when", "tasks[2].when"]
    assert many.status_code == 400
    assert "201 items" in many.json()["detail"]
    assert (await sent(site, "GET", "/tasks")).json()["tasks"] == []


async def test_a_batch_refuses_chains_and_dry_runs_by_their_places_and_stores_none(site: Site) -> None:
    good = {"title": "x", "when": "in 2 hours"}
    tasks = [good, {**good, "steps": [{"name": "fetch"}]}, good, {**good, "dry_run": True}]
    refused = await sent(site, "POST", "/tasks/batch", body={"tasks": tasks})

    assert refused.status_code == 400
    assert refused.json()["detail"].splitlines() == [
        (
            "tasks[1].steps: a chain cannot be part of a batch. "
            "Accepted: tasks without steps, and POST /v1/tasks for each chain. "
            "Example: POST /v1/tasks with {'title': 'Weekly report', 'steps': [{'name': 'fetch'}]}"
        ),
        (
            "tasks[3].dry_run: cannot be used with tasks that are stored together. "
            "Accepted: tasks without dry_run, and POST /v1/tasks to try one. "
            "Example: POST /v1/tasks with {'title': 'Call John', 'when': 'in 2 hours', 'dry_run': true}"
        ),
    ]
    assert (await sent(site, "GET", "/tasks")).json()["tasks"] == []


async def test_a_request_waits_for_the_end_of_a_run(site: Site) -> None:
    made_one = await sent(site, "POST", "/tasks", body={"title": "x", "when": "in 2 hours"})
    path = f"/tasks/{made_one.json()['id']}"
    assert (await sent(site, "GET", f"{path}?wait=0.001")).json()["state"] == "scheduled"
    await sent(site, "POST", f"{path}/cancel")
    assert (await sent(site, "GET", f"{path}?wait=5%20min")).json()["state"] == "cancelled"
    refused = await sent(site, "GET", f"{path}?wait=soon")
    assert (refused.status_code, refused.json()["argument"]) == (422, "wait")


async def test_a_recurring_task_asks_over_rest_before_each_run(site: Site) -> None:
    asks = {"question": "Pay the wages?", "by": "2 hours"}
    task = await made(site, title="Payroll", when="tomorrow 9am", repeat="every day at 9:00", approval=asks)
    early = await sent(site, "POST", f"/tasks/{task['id']}/approve")
    await sent(site, "PATCH", f"/tasks/{task['id']}", body={"when": "now"})
    assert site.app.store.claims.make_ready(limit=9) == []
    waiting = await sent(site, "GET", f"/tasks/{task['id']}")
    rejected = await sent(site, "POST", f"/tasks/{task['id']}/reject", body={"reason": "no money"})
    again = await sent(site, "POST", f"/tasks/{task['id']}/undo", body={"undo": rejected.json()["undo"]})
    approved = await sent(site, "POST", f"/tasks/{task['id']}/approve")

    assert task["repeat"]["approval"] == {"question": "Pay the wages?", "by": "2 h", "default": "reject"}
    assert (early.status_code, waiting.json()["state"]) == (409, "waiting")
    assert waiting.json()["waits"][0]["kind"] == "approval"
    assert (rejected.json()["state"], rejected.json()["repeat"]["text"]) == ("scheduled", "every day at 09:00")
    assert "this occurrence was skipped; the series goes on" in rejected.json()["warnings"]
    assert (again.json()["state"], approved.json()["state"]) == ("waiting", "scheduled")


@pytest.mark.parametrize(
    ("asked", "question"), [("Mail it?", "Mail it?"), (True, None), ({"question": "Mail it?"}, "Mail it?")]
)
async def test_the_question_before_a_run_is_a_text_over_rest_or_an_object_or_true(
    site: Site, asked: Any, question: str | None
) -> None:
    new = await sent(site, "POST", "/tasks", body={"title": "Mail", "when": "in 2 hours", "approval": asked})
    task = await sent(site, "POST", "/tasks", body={"title": "Mail it", "when": "in 2 hours"})
    changed = await sent(site, "PATCH", f"/tasks/{task.json()['id']}", body={"approval": asked})

    for answered in (new, changed):
        [waits] = answered.json()["waits"]
        assert (waits["kind"], (question or "") in answered.text) == ("approval", True)


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [(7, "a number"), (["Mail it?"], "a list"), ({"question": 7}, "'question'"), ({"by": 7}, "'by'")],
)
async def test_a_question_of_another_kind_is_refused_with_all_that_is_accepted(
    site: Site, asked: Any, wrong: str
) -> None:
    refused = await sent(site, "POST", "/tasks", body={"title": "Mail", "when": "in 2 hours", "approval": asked})
    assert refused.status_code == 400
    assert f"approval: {wrong}" in refused.text
    assert "the question alone, or true" in refused.text


async def test_the_wait_of_a_task_is_changed_until_it_has_started(site: Site) -> None:
    steps = [{"name": "fetch", "wait_for": {"event": "paid"}}, {"name": "load", "after": ["fetch"]}]
    chain = (await sent(site, "POST", "/tasks", body={"title": "Report", "when": "in 2 hours", "steps": steps})).json()
    mail = (await sent(site, "POST", "/tasks", body={"title": "Mail", "when": "in 2 hours"})).json()["id"]
    waits = await sent(site, "PATCH", f"/tasks/{mail}", body={"after": [chain["id"]]})
    first = chain["chain"]["steps"][0]["id"]
    cycle = await sent(site, "PATCH", f"/tasks/{first}", body={"after": [mail]})
    goes = await sent(site, "PATCH", f"/tasks/{mail}", body={"remove": ["after"]})
    urgent = await sent(site, "PATCH", f"/tasks/{chain['id']}", body={"priority": "high"})

    assert (waits.status_code, waits.json()["state"]) == (200, "waiting")
    assert cycle.status_code == 422
    assert f"{first} -> {mail} -> {first}" in cycle.text
    assert goes.json()["state"] == "scheduled"
    assert (urgent.status_code, urgent.json()["priority"]) == (200, "high")


async def test_an_estimate_is_words_or_a_number_of_seconds_as_in_a_tool(site: Site) -> None:
    given = {"title": "Count", "when": "in 2 hours"}
    for estimate, shown in ((60, "1 min"), (0.5, "0.5 s"), ("90 s", "1 min 30 s")):
        answer = await sent(site, "POST", "/tasks", body={**given, "title": f"Count {shown}", "estimate": estimate})
        assert (answer.status_code, answer.json()["estimate"]) == (201, shown)
    refused = await sent(site, "POST", "/tasks", body={**given, "estimate": True})
    assert refused.status_code == 400
