"""Over REST, a tenant learns nothing of another one; each route asks for its scope, and answers no foreign page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind

from tests.builders import some
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import made, sent
from tests.flow.rest.failures import failed
from tests.flow.rest.requests import CANARY, KEY, UNKNOWN_RUN, Asked, requests_about

pytestmark = pytest.mark.anyio

TASK_ID = re.compile(r"t_[0-9a-z]{12}")
INSTANT = re.compile(r'"[^"]*\d\d:\d\d[^"]*"')
PLACE = re.compile(r"id: \S+")
"""Names of places in the stream of changes are encrypted, so each is another one."""

UNKNOWN = "t_7k3m9qx2w4hb"
UNKNOWN_KEY = "8k4n0ry3x5jc"
OPEN = "fire"
"""The operation whose path is the right to it; test_fire has it."""

EVERY_SCOPE = ("tasks", "admin:read", "admin")


async def filled(site: Site, token: str) -> str:
    """Make tasks of a tenant with the canary wherever callers write; return the id of one."""
    task = await made(
        site,
        token,
        title=f"{CANARY} report",
        payload={"message": CANARY},
        labels=[CANARY],
    )
    await sent(site, "PATCH", f"/tasks/{task['id']}", token=token, body={"priority": "high"}, headers=key_header())
    await failed(site, token, "acme", payload={"message": CANARY}, labels=[CANARY])
    site.app.store.secrets.set("acme", "theirs", f"value-{CANARY}", by=CANARY)
    site.app.store.audit.record(AuditEntry("acme", AuditKind.POOL_SET, "ann", "rest", CANARY, CANARY))
    gone = await made(site, token, title=f"{CANARY} gone")
    await sent(site, "POST", f"/tasks/{gone['id']}/cancel", token=token, body={"reason": CANARY})
    found: str = task["id"]
    return found


def key_header() -> dict[str, str]:
    return {"Idempotency-Key": KEY}


async def document(site: Site) -> dict[str, dict[str, Any]]:
    """Return the operations of the published document by name, each with its method and path."""
    paths = (await sent(site, "GET", "/openapi.json")).json()["paths"]
    return {
        operation["operationId"]: {**operation, "method": method.upper(), "path": path}
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


async def learned(
    site: Site, token: str, task_id: str, key_id: str = UNKNOWN_KEY, run_id: str = UNKNOWN_RUN
) -> list[str]:
    """Return all that a tenant is told, without what differs in any case: the ids that it named, and times."""
    near = task_id[:-1] + ("0" if task_id[-1] != "0" else "1")
    texts = []
    for asked in every_request(task_id, near, key_id=key_id, run_id=run_id):
        answer = await sent(site, asked.method, asked.path, token=token, **asked.given)
        texts.append(f"{answer.status_code} {sorted(answer.headers)} {answer.text}")
    texts = [PLACE.sub("id: <place>", text) for text in texts]
    return [
        INSTANT.sub('"<time>"', TASK_ID.sub("t_asked", text.replace(key_id, "k_asked").replace(run_id, "r_asked")))
        for text in texts
    ]


def every_request(*task_ids: str, key_id: str = UNKNOWN_KEY, run_id: str = UNKNOWN_RUN) -> list[Asked]:
    about = [requests_about(task_id, key_id, run_id) for task_id in task_ids]
    return [asked for each in about for several in each.values() for asked in several]


async def test_every_operation_of_the_document_is_asked_and_no_other(site: Site) -> None:
    """A new route has to come with its requests, or nobody would know whom it answers."""
    documented = await document(site)
    asked = requests_about(UNKNOWN)

    assert asked.keys() == documented.keys()
    for name, several in asked.items():
        path = re.sub(r"\{\w+\}", "[^/]+", documented[name]["path"])
        for each in several:
            assert each.method == documented[name]["method"]
            assert re.fullmatch(path, each.path.partition("?")[0]), (name, each.path)


async def test_a_text_stands_for_no_task_of_another_tenant(guarded: Site) -> None:
    theirs, ours = guarded.key("acme", "ann"), guarded.key("globex", "bob")
    task_id = await filled(guarded, theirs)
    title = guarded.app.store.tasks.get("acme", task_id).task.title
    for text in (title, task_id[:-2], task_id):
        found = await sent(guarded, "GET", "/find", token=theirs, params={"task_id": text})
        assert found.json()["id"] == task_id
        assert (await sent(guarded, "GET", "/find", token=ours, params={"task_id": text})).status_code == 404


async def test_a_tenant_is_told_the_same_whether_or_not_another_one_has_tasks(guarded: Site) -> None:
    ours = guarded.key("globex", "bob", scopes=EVERY_SCOPE)
    before = await learned(guarded, ours, UNKNOWN)
    theirs = guarded.key("acme", "ann")
    task_id = await filled(guarded, theirs)
    run_id = guarded.app.store.tasks.get("acme", task_id).run.id
    after = await learned(guarded, ours, task_id, theirs.split("_")[1], run_id)

    assert after == before
    assert all(CANARY not in text.replace(KEY, "") for text in some(after))


async def test_the_owner_is_told_of_them(guarded: Site) -> None:
    """The questions can show something."""
    theirs = guarded.key("acme", "ann", scopes=EVERY_SCOPE)
    task_id = await filled(guarded, theirs)
    assert sum(CANARY in text.replace(KEY, "") for text in await learned(guarded, theirs, task_id)) > 10


async def test_the_attempts_of_a_tenant_change_nothing_of_another_one(guarded: Site) -> None:
    ours = guarded.key("globex", "bob", scopes=EVERY_SCOPE)
    theirs = guarded.key("acme", "ann")
    task_id = await filled(guarded, theirs)
    shown = (await sent(guarded, "GET", f"/tasks/{task_id}?history=true", token=theirs)).json()
    await learned(guarded, ours, task_id)
    again = (await sent(guarded, "GET", f"/tasks/{task_id}?history=true", token=theirs)).json()

    changing = ("now", "when", "speech")
    assert {**shown, **dict.fromkeys(changing)} == {**again, **dict.fromkeys(changing)}


async def test_logs_name_no_word_of_a_task(guarded: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "duetime")
    task_id = await filled(guarded, guarded.key("acme", "ann"))
    await learned(guarded, guarded.key("globex", "bob"), task_id)
    assert CANARY not in caplog.text


async def test_every_route_refuses_a_caller_without_its_scope(guarded: Site) -> None:
    """Each operation names its scope in the document, and every other scope alone is refused."""
    lacking = {
        "tasks": [("worker",), ("admin:read", "worker", "admin")],
        "admin:read": [("worker",), ("tasks", "worker")],
        "admin": [("worker",), ("tasks", "worker", "admin:read")],
    }
    keys = {scopes: guarded.key(scopes=scopes) for several in lacking.values() for scopes in several}
    documented = await document(guarded)
    for name, several in requests_about(UNKNOWN).items():
        if name == OPEN:
            continue
        (scope,) = documented[name]["security"][0]["token"]
        for scopes in lacking[scope]:
            asked = several[0]
            answer = await sent(guarded, asked.method, asked.path, token=keys[scopes], **asked.given)
            assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope"), (name, scopes)
            assert f'scope="{scope}"' in answer.headers["WWW-Authenticate"]
            assert answer.headers["Content-Type"] == "application/problem+json"


async def test_every_route_refuses_a_caller_without_a_right_token(guarded: Site) -> None:
    guarded_ones = [asked for asked in every_request(UNKNOWN) if not asked.path.startswith(f"/{OPEN}/")]
    for asked in some(guarded_ones):
        for token in (None, "dt_7k3m9qx2w4hb_" + "0" * 64, "nonsense"):
            answer = await sent(guarded, asked.method, asked.path, token=token, **asked.given)
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token"), asked
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("headers", "status"), [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)]
)
async def test_every_route_refuses_a_foreign_host_and_a_foreign_page(
    site: Site, headers: dict[str, str], status: int
) -> None:
    for asked in [*every_request(UNKNOWN), Asked("GET", "/openapi.json")]:
        given = {**asked.given, "headers": {**asked.given.get("headers", {}), **headers}}
        answer = await sent(site, asked.method, asked.path, **given)
        assert answer.status_code == answer.json()["status"] == status, asked
        assert answer.headers["Content-Type"] == "application/problem+json"
