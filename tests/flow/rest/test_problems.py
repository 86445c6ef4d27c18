"""Problems: what is wrong with a request, in the words of the tools, as RFC 9457 and below 1 KiB; never a defect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import MAX_REFUSAL_BYTES, InvalidArgument
from duetime.tools.arguments.filters import parts_of

from tests.flow.auth.conftest import Site, serving
from tests.flow.rest.conftest import made, sent

pytestmark = pytest.mark.anyio

JSON_BODY = {"Content-Type": "application/json"}
MEMBERS = {"type", "title", "status", "detail", "code"}


def check_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert len(answer.content) <= MAX_REFUSAL_BYTES
    found: dict[str, Any] = answer.json()
    assert found.keys() >= MEMBERS
    assert (found["status"], found["code"]) == (status, code)
    assert found["type"] == f"urn:duetime:problem:{code}"
    assert "pydantic" not in answer.text
    assert "Traceback" not in answer.text
    return found


async def test_all_wrong_arguments_are_reported_together_with_those_that_were_meant(site: Site) -> None:
    body = {"titel": "x", "whn": "now", "max_runs": "3", "priority": "HIGH", "dry_run": None}
    told = check_problem(await sent(site, "POST", "/tasks", body=body), 400, "invalid_argument")["detail"]

    assert ("did you mean title" in told, "it is missing" in told) == (True, False)
    assert "did you mean when" in told
    assert "max_runs: '3' is not a whole number" in told
    assert "priority: 'HIGH' is not one of them" in told
    assert "dry_run: nothing is not true or false" in told


@pytest.mark.parametrize(
    ("method", "path", "way"),
    [
        ("DELETE", "/secrets/stripe", "GET /v1/secrets lists all."),
        ("GET", "/audit/heads?tenant=acmee", "GET /v1/audit/heads names every tenant."),
        ("GET", "/policy/shadow", "PUT /v1/policy/shadow sets one."),
    ],
)
async def test_a_refusal_of_an_unknown_name_ends_with_the_request_that_lists_or_makes_one(
    site: Site, method: str, path: str, way: str
) -> None:
    told = check_problem(await sent(site, method, path), 404, "not_found")["detail"]
    assert told.endswith(way)
    assert "duetime " not in told


async def test_a_misspelt_member_is_one_problem_and_not_also_that_the_meant_one_is_missing(site: Site) -> None:
    misspelt, missing = "nmae: POST /v1/events has no such argument; did you mean name.", "name: it is missing."
    for body, problem in (({"nmae": "paid"}, misspelt), ({}, missing)):
        told = check_problem(await sent(site, "POST", "/events", body=body), 400, "invalid_argument")["detail"]
        assert (told.startswith(problem), told.count("Accepted: ")) == (True, 1)


@pytest.mark.parametrize(
    ("body", "example"),
    [
        ({"unlike": 1}, "without unlike"),
        ({"valid_output": {"type": "object"}}, "without valid_output"),
        ({"payload": {"url": "https://example.com"}, "until": "friday"}, "without until or repeat='daily'"),
        ({"title": "a, until=null", "until": "friday"}, "without until or repeat='daily'"),
    ],
)
async def test_an_example_leaves_out_what_a_request_cannot_send_as_null(
    site: Site, body: dict[str, Any], example: str
) -> None:
    given = {"title": "Call John", "when": "tomorrow 9am"} | body
    told = (await sent(site, "POST", "/tasks", body=given)).json()["detail"]
    assert f"Example: {example}" in told
    assert "=null" not in told


@pytest.mark.parametrize(
    ("name", "value", "example"),
    [
        ("label", "crm", "labels=['crm']"),
        ("channel", "inbox", "deliver_to=['inbox']"),
        ("max_run", "3", "max_runs=3"),
        ("dryrun", "true", "dry_run=true"),
        ("titel", "Call John", "title='Call John'"),
    ],
)
async def test_the_example_for_a_mistyped_name_has_the_value_in_the_form_of_the_document(
    site: Site, name: str, value: str, example: str
) -> None:
    answer = await sent(site, "POST", "/tasks", body={"when": "tomorrow 9am", name: value})
    assert f"Example: {example}" in check_problem(answer, 400, "invalid_argument")["detail"]


async def test_a_number_out_of_range_and_a_text_that_is_none_are_named(site: Site) -> None:
    for query, told in (("limit=0", "limit: 0 is out of range"), ("limit=abc", "limit: 'abc' is not a whole number")):
        for path in ("/tasks", "/runs", "/audit"):
            answer = await sent(site, "GET", f"{path}?{query}")
            assert told in check_problem(answer, 400, "invalid_argument")["detail"]


async def test_a_request_is_named_by_the_route_that_its_users_write(site: Site) -> None:
    answer = await sent(site, "PUT", "/pools/a/b", body={"kind": "slots", "frobnicate": 1})
    told = check_problem(answer, 400, "invalid_argument")["detail"]
    assert "PUT /v1/pools/{name}" in told


async def test_the_words_are_those_of_the_tool(site: Site) -> None:
    given = {"title": "x", "when": "someday maybe"}
    told = await site.call(None, "schedule_task", **given)
    answer = await sent(site, "POST", "/tasks", body=given)
    assert check_problem(answer, 422, "invalid_argument")["detail"] == told["content"][0]["text"]


@pytest.mark.parametrize("preferred", ["words=command", 'wait=5, Words = "command"; x'])
async def test_a_client_may_prefer_the_words_of_the_command_line(site: Site, preferred: str) -> None:
    body = {"title": "x", "when": "someday maybe"}
    answer = await sent(site, "POST", "/tasks", body=body, headers={"Prefer": preferred})
    told = check_problem(answer, 422, "invalid_argument")["detail"]
    assert told.startswith("--when: ")
    other = await sent(site, "POST", "/tasks", body=body, headers={"Prefer": "words=tool"})
    assert check_problem(other, 422, "invalid_argument")["detail"].startswith("when: ")


async def test_the_query_is_read_as_strictly_as_the_body(site: Site) -> None:
    for query, said in (
        ("limit=0", "out of range"),
        (f"limit={'9' * 20}", "out of range"),
        ("limit=ten", "not a whole number"),
        ("limit=5&limit=6", "given twice"),
        ("sate=open", "did you mean state"),
    ):
        answer = await sent(site, "GET", f"/tasks?{query}")
        assert said in check_problem(answer, 400, "invalid_argument")["detail"], query


async def test_a_list_takes_several_states_and_refuses_others_as_the_command_line_does(site: Site) -> None:
    await made(site)
    for query, count in (("scheduled,running", 1), ("ended,running", 0), ("open", 1)):
        answer = await sent(site, "GET", f"/tasks?state={query}")
        assert (answer.status_code, len(answer.json()["tasks"])) == (200, count), query
    for state in ("failed,lost", "paused,failed", "done"):
        with pytest.raises(InvalidArgument) as refused:
            parts_of(state)
        for path in ("/tasks", "/runs"):
            answer = await sent(site, "GET", f"{path}?state={state}", headers={"Prefer": "words=tool"})
            assert check_problem(answer, 422, "invalid_argument")["detail"] == str(refused.value), path
    strict = await sent(site, "GET", "/tasks?state=failed,OPEN")
    assert "'OPEN' is not one of them" in check_problem(strict, 422, "invalid_argument")["detail"]


async def test_an_unknown_task_is_not_found_and_the_nearest_is_named(site: Site) -> None:
    task = await made(site)
    near = task["id"][:-1] + ("0" if task["id"][-1] != "0" else "1")
    told = check_problem(await sent(site, "GET", f"/tasks/{near}"), 404, "not_found")
    assert task["id"] in told["detail"]
    told = check_problem(await sent(site, "POST", "/tasks/t_1/pause"), 404, "not_found")
    assert "GET /v1/tasks" in told["detail"] or task["id"] in told["detail"]


async def test_a_remedy_names_the_request_that_helps(site: Site) -> None:
    task = await made(site)
    told = check_problem(await sent(site, "POST", f"/tasks/{task['id']}/done"), 409, "refused")
    assert f"POST /v1/tasks/{task['id']}/cancel" in told["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"nonsense", 400),
        (b'{"title": NaN}', 400),
        (b'{"title": 1e999}', 400),
        (b"\xff\xfe\x00", 400),
        (b"[" * 100_000, 400),
        (b'{"payload": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001, 400),
        (b'{"max_runs": ' + b"9" * 5000 + b"}", 400),
        (b"", 400),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(site: Site, content: bytes, status: int) -> None:
    answer = await sent(site, "POST", "/tasks", content=content, headers=JSON_BODY)
    assert answer.status_code == status, answer.text
    assert len(answer.content) <= MAX_REFUSAL_BYTES


@pytest.mark.parametrize("content", [b'{"title": "x", "title": "y"}', b'{"title": "x", "payload": {"a": 1, "a": 2}}'])
async def test_a_member_that_is_named_twice_is_refused(site: Site, content: bytes) -> None:
    told = check_problem(await sent(site, "POST", "/tasks", content=content, headers=JSON_BODY), 400, "malformed")
    assert "twice" in told["detail"]


@pytest.mark.parametrize("levels", [100, 101, 900, 90_000])
@pytest.mark.parametrize(("method", "path"), [("PUT", "/pools/gpu"), ("PATCH", "/policy"), ("POST", "/tasks")])
async def test_a_body_of_many_levels_is_refused_by_their_number(
    site: Site, method: str, path: str, levels: int
) -> None:
    content = b'{"spec": ' * levels + b"1" + b"}" * levels
    answer = await sent(site, method, path, content=content, headers=JSON_BODY)
    status, code = (400, "malformed") if levels > 100 else (answer.status_code, "invalid_argument")
    told = check_problem(answer, status, code)["detail"]
    assert ("it is nested too deeply; 100 levels are the limit" in told) is (levels > 100), told


async def test_a_length_of_thousands_of_digits_is_refused(site: Site) -> None:
    answer = await sent(site, "POST", "/tasks", content=b"{}", headers={**JSON_BODY, "Content-Length": "9" * 5_000})
    check_problem(answer, 413, "malformed")


async def test_a_quota_of_a_minute_says_when_there_is_room(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys", tenant_schedules_per_minute=1) as quoted:
        key = quoted.key()
        await made(quoted, key)
        answer = await sent(quoted, "POST", "/tasks", token=key, body={"title": "y", "when": "in 2 hours"})
        check_problem(answer, 429, "refused")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60


async def test_a_refusal_before_any_route_is_a_problem_document_too(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys", tenant_calls_per_minute=1) as limited:
        key = limited.key()
        await sent(limited, "GET", "/tasks", token=key)
        answer = await sent(limited, "GET", "/tasks", token=key)
        check_problem(answer, 429, "too_many_calls")
        assert answer.headers["Retry-After"]
        twice = [("Authorization", f"Bearer {key}")] * 2
        check_problem(await limited.http.get("/v1/tasks", headers=twice), 400, "invalid_request")


async def test_a_body_of_another_type_is_refused(site: Site) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = await sent(site, "POST", "/tasks", content=b'{"title": "x"}', headers={"Content-Type": kind})
        check_problem(answer, 415, "malformed")
    task = await made(site)
    answer = await sent(site, "POST", f"/tasks/{task['id']}/pause", content=b"{}", headers={"Content-Type": "x/y"})
    check_problem(answer, 415, "malformed")
    check_problem(await sent(site, "GET", "/tasks", content=b"{}", headers=JSON_BODY), 400, "malformed")


async def test_a_body_that_is_too_long_is_refused_while_it_arrives(site: Site) -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b" " * 65_536

    answer = await sent(site, "POST", "/tasks", content=endless(), headers=JSON_BODY)
    check_problem(answer, 413, "malformed")


async def test_a_key_that_cannot_be_read_is_refused(site: Site) -> None:
    for text in ("", "one two", "x" * 201):
        answer = await sent(site, "POST", "/tasks", body={"title": "y"}, headers={"Idempotency-Key": text})
        assert check_problem(answer, 400, "malformed")["argument"] == "Idempotency-Key"


async def test_a_tag_that_no_task_has_never_matches(site: Site) -> None:
    task = await made(site)
    strange = ("", "1", '"1" "2"', '*, "1"', "x" * 5_000, '"1' * 2_000)
    for tag in ('W/"1"', '"x", W/"1"', '"' + "9" * 40 + '"', *strange):
        answer = await sent(site, "PATCH", f"/tasks/{task['id']}", body={"title": "y"}, headers={"If-Match": tag})
        assert check_problem(answer, 412, "stale_revision")["argument"] == "If-Match"
    first = {"If-Match": '"0"'}  # the tag of a policy that nobody has changed
    answer = await sent(site, "PATCH", f"/tasks/{task['id']}", body={"title": "y"}, headers=first)
    check_problem(answer, 412, "stale_revision")


async def test_an_id_with_a_line_break_is_an_unknown_id(site: Site) -> None:
    check_problem(await sent(site, "POST", "/tasks/%0A/pause"), 404, "not_found")


async def test_a_path_or_a_method_that_is_not_served_is_a_problem_too(site: Site) -> None:
    check_problem(await sent(site, "GET", "/nothing"), 404, "not_found")
    check_problem(await sent(site, "GET", "/tasks/"), 404, "not_found")
    answer = await sent(site, "DELETE", "/tasks/t_1")
    said = check_problem(answer, 405, "method_not_allowed")["detail"]
    assert said == "The path has no such method. Accepted: GET, HEAD, PATCH; GET /v1/openapi.json lists all."
    assert answer.headers["Allow"] == "GET, HEAD, PATCH"
    assert (await sent(site, "DELETE", "/tasks/batch")).headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("/task", "; did you mean /v1/tasks"),
        ("/tasks/", "; did you mean /v1/tasks"),
        ("/tasks/t_1/canel", "; did you mean /v1/tasks/{task_id}/cancel"),
        ("/tasks/" + "x" * 5_000 + "/canel", ""),
        ("/nothing", ""),
    ],
)
async def test_a_path_that_is_not_served_names_the_nearest_one(site: Site, asked: str, near: str) -> None:
    answer = check_problem(await sent(site, "POST", asked), 404, "not_found")
    assert answer["detail"] == f"There is no such path{near}; GET /v1/openapi.json lists all."


@pytest.mark.parametrize(
    "path",
    [
        "/tasks",
        "/tasks/t_nothing",
        "/openapi.json",
        "/tasks?limt=5",
        "/changes?seconds=0",
        "/runs/r_nothing/log/stream",
    ],
)
async def test_a_path_with_get_answers_head_too_with_the_same_headers_and_no_body(site: Site, path: str) -> None:
    whole, head = await sent(site, "GET", path), await sent(site, "HEAD", path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert {**head.headers} == {**whole.headers}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"title": "Water",\n "when" "now"}', "the body is not JSON at line 2, column 9: expecting ':' delimiter."),
        (b'{"title": "W\xff"}', "the body is not JSON: byte 13 is not UTF-8."),
        (b'{"title": NaN}', "the body is not JSON: NaN is not a number of JSON."),
    ],
)
async def test_a_body_that_is_no_json_is_told_with_the_place(site: Site, content: bytes, place: str) -> None:
    answer = await sent(site, "POST", "/tasks", content=content, headers=JSON_BODY)
    assert check_problem(answer, 400, "malformed")["detail"] == place


@pytest.mark.parametrize(
    ("given", "example"),
    [
        ("Water the plants", "title='Water the plants'"),
        (
            "Water the plants on the balcony, and those in the kitchen if they are dry",
            "title='Water the plants on the balcon...'",
        ),
    ],
)
async def test_the_example_for_a_slip_of_a_name_is_the_name_that_was_meant_with_the_value_that_was_given(
    site: Site, given: str, example: str
) -> None:
    answer = await sent(site, "POST", "/tasks", body={"titel": given})
    assert example in str(check_problem(answer, 400, "invalid_argument")["detail"])


async def test_the_longest_refusal_stays_below_the_bound(site: Site) -> None:
    body = {'"\\' * 300 + str(n): "\x00\ud800" for n in range(400)}
    content = json.dumps({"title": "x", **body}).encode()
    answer = await sent(site, "POST", "/tasks", content=content, headers=JSON_BODY)
    check_problem(answer, 400, "invalid_argument")


async def test_a_defect_is_admitted_without_its_traceback(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(site.app.scheduler.tasks, "list", broken)
    told = check_problem(await sent(site, "GET", "/tasks"), 500, "defect")

    assert "secret words" not in json.dumps(told)
    assert re.fullmatch(r"e_[0-9a-f]{8}", told["error_id"])
    assert told["error_id"] in caplog.text


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/pools/x"), ("PATCH", "/policy"), ("POST", "/retention/run"), ("GET", "/stats?a=b")]
)
async def test_the_right_is_checked_before_the_request_is_read(guarded: Site, method: str, path: str) -> None:
    foreign, operator = guarded.key("acme", scopes=("admin",)), guarded.key("local", scopes=("admin",))
    refused = await sent(guarded, method, path, token=foreign, body={"nonsense": 1})
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert "the tenant that the setting operator_tenant names" in refused.json()["detail"]
    wrong = await sent(guarded, method, path, token=operator, body={"nonsense": 1})
    assert wrong.status_code in (400, 422), wrong.text


@pytest.mark.parametrize(("body", "argument"), [({"name": "x", "scopes": []}, "scopes"), ({"name": ""}, "name")])
async def test_a_key_that_opens_nothing_or_has_no_name_is_not_made(
    site: Site, body: dict[str, Any], argument: str
) -> None:
    refused = await sent(site, "POST", "/keys", body=body)
    assert check_problem(refused, refused.status_code, "invalid_argument")["argument"] == argument
    assert (await sent(site, "GET", "/keys")).json()["keys"] == []


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
async def test_an_unknown_key_is_refused_in_the_words_of_the_caller(site: Site, verb: str) -> None:
    path = f"/keys/nothing/{verb}"
    told = check_problem(await sent(site, "POST", path), 404, "not_found")["detail"]
    assert told == "key_id: no API key 'nothing'. GET /v1/keys lists all."
    typed = await sent(site, "POST", path, headers={"Prefer": "words=command"})
    assert check_problem(typed, 404, "not_found")["detail"].endswith("`duetime keys list` lists all.")


async def test_a_pause_is_tried_without_a_change(site: Site) -> None:
    task = await made(site)
    tried = await sent(site, "POST", f"/tasks/{task['id']}/pause", body={"dry_run": True, "pause_until": "in 3 days"})
    assert tried.status_code == 200, tried.text
    assert tried.json()["paused"] is True
    after = (await sent(site, "GET", f"/tasks/{task['id']}")).json()
    assert (after.get("paused"), after["revision"]) == (None, task["revision"])
