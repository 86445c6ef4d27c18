"""Agents elsewhere are workers over MCP: shown to keys with the scope `worker` alone, each bounded by its tenant."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import tomllib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from duetime.scheduler.principal import Principal
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.protocol.tasks_extension import TASKS_EXTENSION
from duetime.tools.definition import Sender
from duetime.tools.registration import WORKER_TOOLS
from duetime.tools.worker import claim_runs
from duetime.tools.worker.claim_runs import CLAIM_RUNS, ClaimRuns
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests import blank
from tests.flow.auth.conftest import HELLO, MODERN, Site, bearer, serving
from tests.flow.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.anyio

CANARY = "canary7f3a"
SCOPES = ("tasks", "worker")
COMPLETION = {
    "ref": {"type": "ref/resource", "uri": "duetime://tasks/{task_id}"},
    "argument": {"name": "task_id", "value": "t"},
}
NAMES = [tool.name for tool in WORKER_TOOLS]
SCHEMA = {"required": ["url"], "properties": {"url": {"type": "string"}, "speed": {"enum": ["fast", "slow"]}}}
ACTIONS = {
    "transcribe": {"description": "Transcribes an audio file", "payload": SCHEMA, "lease": "60 s"},
    "translate": {"description": "Translates a text"},
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys", external_actions=ACTIONS) as found:
        found.app.start()
        yield found


@asynccontextmanager
async def connected(site: Site, key: str) -> AsyncIterator[Client]:
    """Connect the client of the SDK, as an agent elsewhere does."""
    async with (
        httpx2.AsyncClient(transport=site.http._transport, base_url="http://127.0.0.1", headers=bearer(key)) as http,
        Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http)) as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content or {}
    return found


async def scheduled(site: Site, key: str, **more: Any) -> str:
    given = {"title": "Transcribe", "action": "transcribe", "payload": {"url": "https://example.com/a.wav"}, **more}
    made = await site.call(key, "schedule_task", **given)
    assert not made.get("isError"), made
    return str(made["structuredContent"]["id"])


async def listed(site: Site, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await site.modern(key, "tools/list")).json()["result"]["tools"]
    return found


async def test_the_client_of_the_sdk_claims_and_finishes_and_the_chain_goes_on_with_the_result(site: Site) -> None:
    key = site.key("acme", "ann")
    steps = [
        {"name": "sound", "title": "Transcribe", "action": "transcribe", "payload": {"url": "https://example.com/a"}},
        {"name": "text", "title": "Translate", "action": "translate", "after": ["sound"]},
    ]
    chain = (await site.call(key, "schedule_task", title="Both", steps=steps))["structuredContent"]
    async with connected(site, site.key("acme", "agent", scopes=SCOPES)) as client:
        [first] = (await called(client, "claim_runs", wait="20 s"))["claims"]
        assert (first["action"], first["payload"]) == ("transcribe", {"url": "https://example.com/a"})
        assert (first["attempt"], first["time_limit_seconds"]) == (1, 600)
        renewed = await called(client, "heartbeat_run", claim=first["claim"], progress=0.5, note="half")
        assert renewed["directive"] == "continue"
        await called(client, "checkpoint_run", claim=first["claim"], state={"page": 1})
        done = await called(client, "finish_run", claim=first["claim"], outcome="done", result={"words": 3})
        assert (done["outcome"], done["run_state"]) == ("done", "succeeded")
        [second] = (await called(client, "claim_runs", actions=["translate"], wait="20 s"))["claims"]
        assert second["inputs"]["sound"] == {"words": 3}
        await called(client, "finish_run", claim=second["claim"], outcome="done", summary="Hallo")
    whole = (await site.call(key, "get_task", task_id=chain["id"]))["structuredContent"]
    assert whole["state"] == "succeeded", whole


def of_page() -> tuple[dict[str, Any], str]:
    """Return the program of the page, as a module, and its settings."""
    page = (Path(__file__).parents[3] / "docs" / "external-workers.md").read_text("utf-8")
    [code] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [settings] = re.findall(r"^   ```toml\n(.*?)^   ```$", page, re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = {"__name__": "shown_worker"}
    exec(compile(code, "external-workers.md", "exec"), shown)
    return shown, settings


async def test_a_key_that_is_not_accepted_ends_the_program_of_the_page_with_one_sentence(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, _ = of_page()
    client, transport = httpx2.AsyncClient, site.http._transport
    monkeypatch.setattr(httpx2, "AsyncClient", lambda **given: client(transport=transport, **given))
    for key, said in (
        ("dt_wrong", "does not accept the key in WORKER_KEY (401): Authentication required"),
        (
            site.key(scopes=("admin:read",)),
            "does not accept the key in WORKER_KEY (403): Required scope: tasks or worker",
        ),
        (site.key(), "claim_runs needs a token with the scope worker."),
    ):
        monkeypatch.setenv("WORKER_KEY", key)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(SystemExit) as ended:
                await shown["main"]()
        assert str(ended.value).endswith(said)


async def test_a_refusal_of_a_proxy_that_is_no_json_ends_the_program_of_the_page_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, _ = of_page()
    refuses = httpx2.MockTransport(lambda _request: httpx2.Response(403, html="<h1>No!</h1>"))
    async with httpx2.AsyncClient(transport=refuses) as http:
        with pytest.raises(SystemExit) as ended:
            await shown["check_key"](http)
    assert str(ended.value).endswith("does not accept the key in WORKER_KEY (403): Forbidden")


async def test_the_program_of_the_page_says_in_a_line_that_the_server_is_away_and_tries_again_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, _ = of_page()
    slept: list[float] = []

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 8:
            raise Enough

    def refused(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    monkeypatch.setitem(shown, "uniform", lambda _low, high: high)
    monkeypatch.setattr(shown["asyncio"], "sleep", sleep)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(refused)) as http:
        with pytest.raises(Enough):
            await shown["call"](http, "claim_runs")
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60]
    said = capsys.readouterr().out.splitlines()
    assert said == [f"claim_runs: ConnectError: refused; again in {seconds:.1f} s" for seconds in slept]


async def test_the_program_of_the_page_works_through_what_is_due_also_after_the_server_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the settings of the page, and nothing else."""
    shown, settings = of_page()
    pause = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _seconds: pause(0))
    async with serving(tmp_path, auth="keys", **tomllib.loads(settings)) as site:
        site.app.start()
        key, over = site.key(), Away(site.http._transport)
        task_id = await scheduled(site, key)
        headers = bearer(site.key("acme", "bot", scopes=("worker",)))
        async with httpx2.AsyncClient(transport=over, headers=headers) as http:
            work = asyncio.ensure_future(shown["serve"](http))
            ended = await site.call(key, "get_task", task_id=task_id, wait="30 s")
            while not work.done():  # before its client is closed
                work.cancel()
                await asyncio.wait([work], timeout=1)
        assert ended["structuredContent"]["state"] == "succeeded", ended
        assert "Transcribed" in ended["content"][0]["text"]
        assert over.refused == {"claim_runs", "finish_run"}


class Away(httpx2.AsyncBaseTransport):
    """The way to a server that is away at the first call of each tool."""

    def __init__(self, over: httpx2.AsyncBaseTransport) -> None:
        self._over = over
        self.refused: set[str] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        called = json.loads(await request.aread() or b"{}").get("params", {}).get("name")
        if called and called not in self.refused:
            self.refused.add(called)
            raise httpx2.ConnectError("refused")
        return await self._over.handle_async_request(request)


async def test_a_claim_and_its_reservation_outlive_a_restart_of_the_server(tmp_path: Path) -> None:
    blank.make(tmp_path / "duetime.db")
    actions = {"transcribe": {"description": "Transcribes", "needs": {"gpu": 1}}}
    given: dict[str, Any] = {"auth": "keys", "external_actions": actions, "pools": {"gpu": {"capacity": 1}}}
    given["database_url"] = f"sqlite:///{tmp_path}/duetime.db"
    async with serving(tmp_path, **given) as first:
        first.app.start()
        worker = first.key("acme", "bot", scopes=SCOPES)
        await scheduled(first, worker)
        [claimed] = (await first.call(worker, "claim_runs", wait="20 s"))["structuredContent"]["claims"]
    async with serving(tmp_path, **given) as second:
        second.app.start()

        def free() -> float | None:
            stats = second.app.remote_queue.stats()
            return stats.pools["gpu"].free if stats else None

        eventually(lambda: free() == 0, "the reservation is back")
        renewed = await second.call(worker, "heartbeat_run", claim=claimed["claim"])
        assert renewed["structuredContent"]["directive"] == "continue"
        done = await second.call(worker, "finish_run", claim=claimed["claim"], outcome="done")
        assert (done["structuredContent"]["run_state"], free()) == ("succeeded", 1)


@pytest.mark.parametrize("modern", [True, False])
async def test_a_call_that_waits_for_a_run_claims_none_once_its_caller_has_closed_the_connection(
    site: Site, modern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, left, look, loop = site.http._transport, asyncio.Event(), claim_runs._claim, asyncio.get_running_loop()
    assert isinstance(served, httpx2.ASGITransport)
    app, worker = served.app, site.key("acme", "bot", scopes=("worker",))

    async def leaving(scope: Any, receive: Any, send: Any) -> None:
        whole = False

        async def received() -> Any:
            nonlocal whole
            if whole:
                await left.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            whole = not message.get("more_body")
            return message

        await app(scope, received, send)

    def last_look(call: ClaimRuns, sender: Sender) -> Any:
        claimed = look(call, sender)
        loop.call_soon_threadsafe(left.set)
        return claimed

    monkeypatch.setattr(claim_runs, "_claim", last_look)
    headers = {} if modern else await site.session(worker)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(leaving), base_url="http://127.0.0.1") as http:
        there = Site(site.app, http)
        params = {"name": "claim_runs", "arguments": {"wait": "20 s"}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        waiting = asyncio.ensure_future(
            there.modern(worker, "tools/call", **params) if modern else there.post(worker, body, **headers)
        )
        async with asyncio.timeout(PATIENCE_S):
            await left.wait()
        task_id = await scheduled(site, site.key("acme", "ann"))
        answer = (await waiting).json()["result"]
    assert answer["structuredContent"]["claims"] == []
    assert site.app.store.history.attempts("acme", task_id) == []


async def test_of_many_calls_that_wait_for_the_same_runs_one_looks_until_there_is_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, looks, loop, all_wait = site.app.scheduler, Counter[str](), asyncio.get_running_loop(), asyncio.Event()
    runs = scheduler.external_runs
    assert runs is not None
    claim, before = runs.claim, CLAIM_RUNS.before_answer
    assert before is not None

    def counted(*given: Any, **named: Any) -> Any:
        looks[named["by"].user] += 1
        if len(looks) == len(calls):
            loop.call_soon_threadsafe(all_wait.set)
        return claim(*given, **named)

    monkeypatch.setattr(runs, "claim", counted)
    calls = [ClaimRuns(wait="20 s") for _ in range(20)]
    senders = [Sender(scheduler, Principal("acme", f"bot{n}", frozenset(SCOPES)), {}) for n in range(20)]
    waiting = {asyncio.ensure_future(before(*each)) for each in zip(calls, senders, strict=True)}
    async with asyncio.timeout(PATIENCE_S):
        await all_wait.wait()
        await scheduled(site, site.key("acme", "ann"), when="in 2 seconds")
        _, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    assert sum(len(call.claimed or ()) for call in calls) == 1
    assert len([user for user, count in looks.items() if count > 1]) <= 2, "the one that got it, and the one behind"


async def test_a_run_that_is_claimed_for_a_caller_that_has_left_is_handed_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, store = site.app.scheduler, site.app.store
    runs, entered, left = scheduler.external_runs, threading.Event(), threading.Event()
    assert runs is not None
    claim = runs.claim

    def late(*given: Any, **named: Any) -> Any:
        entered.set()
        left.wait(10)
        return claim(*given, **named)

    monkeypatch.setattr(runs, "claim", late)
    task_id = await scheduled(site, site.key("acme", "ann"))
    run_id = store.tasks.get("acme", task_id).run.id
    eventually(lambda: site.app.remote_queue.explain(run_id)[1] is not None, "the run is in the queue")
    sender = Sender(scheduler, Principal("acme", "bot", frozenset(SCOPES)), {})
    assert CLAIM_RUNS.before_answer is not None
    waiting = asyncio.ensure_future(CLAIM_RUNS.before_answer(ClaimRuns(wait="20 s"), sender))
    await asyncio.to_thread(entered.wait, 10)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    left.set()
    eventually(lambda: [each.outcome for each in store.history.attempts("acme", task_id)] == ["yielded"], "its return")


async def test_a_run_is_handed_back_whose_caller_leaves_in_the_moment_between_its_claim_and_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, store = site.app.scheduler, site.app.store
    task_id = await scheduled(site, site.key("acme", "ann"))
    run_id = store.tasks.get("acme", task_id).run.id
    eventually(lambda: site.app.remote_queue.explain(run_id)[1] is not None, "the run is in the queue")

    async def claimed_too_late(work: Any, *given: Any) -> None:
        await asyncio.to_thread(work, *given)
        raise asyncio.CancelledError

    monkeypatch.setattr(claim_runs, "cross", claimed_too_late)
    sender = Sender(scheduler, Principal("acme", "bot", frozenset(SCOPES)), {})
    assert CLAIM_RUNS.before_answer is not None
    with pytest.raises(asyncio.CancelledError):
        await CLAIM_RUNS.before_answer(ClaimRuns(), sender)
    eventually(lambda: [each.outcome for each in store.history.attempts("acme", task_id)] == ["yielded"], "its return")


async def test_a_key_without_the_scope_is_shown_no_worker_tool_and_may_call_none(site: Site) -> None:
    ordinary, admin = site.key(), site.key(scopes=("tasks", "admin"))
    worker = site.key(scopes=SCOPES)
    for key in (ordinary, admin):
        assert not {tool["name"] for tool in await listed(site, key)} & set(NAMES)
    assert [tool["name"] for tool in await listed(site, worker)][-4:] == NAMES
    for name in NAMES:
        refused = await site.call(ordinary, name, claim="r_1.1", outcome="done", state={"x": 1})
        assert refused["isError"]
        assert "needs a token with the scope worker" in refused["content"][0]["text"]
        assert len(json.dumps(refused)) < 1_024


async def test_there_are_no_worker_tools_where_no_action_is_external(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys") as plain:
        worker = plain.key(scopes=SCOPES)
        assert not {tool["name"] for tool in await listed(plain, worker)} & set(NAMES)
        alone = await plain.modern(plain.key(scopes=("worker",)), "tools/list")
        assert (alone.status_code, alone.json()["error"]) == (403, "insufficient_scope")


async def test_a_key_with_the_scope_worker_alone_is_shown_the_worker_tools_and_calls_nothing_else(site: Site) -> None:
    task_id = await scheduled(site, site.key("acme", "ann"), title=CANARY)
    alone = site.key("acme", "bot", scopes=("worker",))
    assert [tool["name"] for tool in await listed(site, alone)] == NAMES
    meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    for tool in (each["name"] for each in await listed(site, site.key())):
        of = {"name": tool, "arguments": {"task_id": task_id, "wait": "1 s"}}
        for more in (MODERN, meta):  # the second as a client that would get a handle of its wait
            refused = (await site.modern(alone, "tools/call", **of, _meta=more)).json()["result"]
            assert refused["isError"]
            assert f"{tool} needs a token with the scope tasks" in refused["content"][0]["text"]
    methods: list[tuple[str, dict[str, Any]]] = [
        ("resources/list", {}),
        ("resources/read", {"uri": f"duetime://tasks/{task_id}"}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "plan_my_day"}),
        ("completion/complete", COMPLETION),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["duetime://inbox"]}}),
        ("tasks/get", {"taskId": task_id, "_meta": meta}),
    ]
    for method, params in methods:
        answer = await site.modern(alone, method, **params)
        assert f"{method} needs a token with the scope tasks" in answer.text, (method, answer.text)
        assert CANARY not in answer.text
        assert answer.status_code < 500
    assert (await site.http.get("/v1/tasks", headers=bearer(alone))).status_code == 403
    assert site.app.store.tasks.get("acme", task_id).run.state.value in {"pending", "ready"}


async def test_a_key_with_the_scope_worker_alone_is_told_of_tools_and_claims_in_both_eras_of_the_protocol(
    site: Site,
) -> None:
    alone = site.key("acme", "bot", scopes=("worker",))
    await scheduled(site, site.key("acme", "ann"))
    async with connected(site, alone) as client:
        [claimed] = (await called(client, "claim_runs", wait="20 s"))["claims"]
        done = await called(client, "finish_run", claim=claimed["claim"], outcome="done")
    assert done["run_state"] == "succeeded"
    found = (await site.modern(alone, "server/discover")).json()["result"]
    hello = (await site.post(alone, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})).json()
    for told in (found, hello["result"]):
        assert set(told["capabilities"]) <= {"tools", "experimental"}
        assert "claim_runs" in told["instructions"]
        assert "schedule_task" not in told["instructions"]
    session = await site.session(alone)
    body = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "duetime://inbox"}}
    assert "needs a token with the scope tasks" in (await site.post(alone, body, **session)).text
    for method in ("tools/list", "ping"):
        answer = (await site.post(alone, {"jsonrpc": "2.0", "id": 3, "method": method}, **session)).json()
        assert "result" in answer, answer


async def test_the_local_user_has_the_worker_tools_where_the_settings_declare_external_actions(site: Site) -> None:
    changes = Subscriptions(lambda: site.app.store.history)
    for external in (True, False):
        async with Client(make_server(lambda: site.app.scheduler, changes, external=external)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
        assert (names[-4:] == NAMES) is external


async def test_the_definitions_of_worker_tools_are_frugal(site: Site) -> None:
    tools = [tool for tool in await listed(site, site.key(scopes=SCOPES)) if tool["name"] in NAMES]
    assert len(json.dumps(tools, separators=(",", ":"))) < 4_000


async def test_a_worker_learns_nothing_of_the_runs_of_another_tenant(site: Site) -> None:
    task_id = await scheduled(site, site.key("acme", "ann"), title=f"{CANARY} sound")
    held = await site.call(site.key("acme", "bot", scopes=SCOPES), "claim_runs", wait="20 s")
    [mine] = held["structuredContent"]["claims"]
    await scheduled(site, site.key("acme", "ann"), title=f"{CANARY} next")
    other = site.key("globex", "bot", scopes=SCOPES)
    nothing = await site.call(other, "claim_runs", max=10)
    assert nothing["structuredContent"]["claims"] == []
    answers = [nothing]
    for name in (mine["claim"], "r_00000000000000000000.1"):
        of = {"claim": name}
        answers.append(await site.call(other, "heartbeat_run", **of))
        answers.append(await site.call(other, "checkpoint_run", **of, state={"x": 1}))
        answers.append(await site.call(other, "finish_run", **of, outcome="done"))
    told = [json.dumps(each).replace(mine["claim"], "r_00000000000000000000.1") for each in answers]
    assert told[1:4] == told[4:]
    assert all(CANARY not in each and task_id not in each for each in told)
    assert site.app.store.tasks.get("acme", task_id).run.state.value == "running"


async def until_shown(site: Site, key: str, task_id: str, words: str) -> None:
    """Read a task until its text has some words: a task that is new waits for a process to queue it."""
    async with asyncio.timeout(PATIENCE_S):
        shown = ""
        while words not in shown:
            shown = (await site.call(key, "get_task", task_id=task_id))["content"][0]["text"]
            await asyncio.sleep(0.02)


async def test_a_task_says_that_no_worker_has_claimed_its_action_and_lists_name_those_that_do(site: Site) -> None:
    key, operator = site.key("acme", "ann"), site.key("local", "root", scopes=("tasks", "admin:read"))
    task_id = await scheduled(site, key)
    await until_shown(site, key, task_id, "none has claimed 'transcribe' lately")
    async with connected(site, site.key("acme", "bot", scopes=SCOPES)) as client:
        [claimed] = (await called(client, "claim_runs", wait="20 s"))["claims"]
    other = await scheduled(site, key, title="Transcribe too")
    await until_shown(site, key, other, "a worker elsewhere to claim it")
    found = (await site.http.get("/v1/workers", headers=bearer(operator))).json()["external"]
    [bot] = [{**each, "started_at": None, "seen_at": None} for each in found]
    assert bot == {
        "id": "mcp:acme/bot",
        "tenant": "acme",
        "user": "bot",
        "client": "mcp",
        "all_tenants": False,
        "state": "running",
        "actions": ["transcribe", "translate"],
        "running": 1,
        "runs": [claimed["run_id"]],
        "started_at": None,
        "seen_at": None,
    }


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("claim_runs", {"actions": ["x" * 5_000]}),
    ("claim_runs", {"actions": ["transcribe@globex"]}),
    ("claim_runs", {"actions": [{"a": 1}]}),
    ("claim_runs", {"actions": ["a"] * 500}),
    ("claim_runs", {"max": 11}),
    ("claim_runs", {"max": -1}),
    ("claim_runs", {"wait": "1 year"}),
    ("claim_runs", {"wait": "60 s"}),
    ("claim_runs", {"tenant": "globex"}),
    *(
        ("heartbeat_run", {"claim": claim})
        for claim in ("", "x" * 90_000, "r_1", "r_1.0", "r_1.99999999999", "r_\u0000.1", "r_1.1' OR 1=1", {"a": 1}, 7)
    ),
    ("heartbeat_run", {"claim": "r_1.1", "progress": 2}),
    ("heartbeat_run", {"claim": "r_1.1", "progress": "NaN"}),
    ("checkpoint_run", {"claim": "r_1.1", "state": "x"}),
    ("checkpoint_run", {"claim": "r_1.1"}),
    ("finish_run", {"claim": "r_1.1", "outcome": "wonderful" * 999}),
    ("finish_run", {"claim": "r_1.1", "outcome": "done", "usage": {"x" * 999: "y" * 999}}),
    ("finish_run", {"claim": "r_1.1", "outcome": "done", "usage": {"gpu": -1}}),
    ("finish_run", {"claim": "r_1.1", "outcome": "done", "result": [1]}),
    ("finish_run", {"claim": "r_1.1", "outcome": "retry", "retry_in": 1e300}),
]


async def test_hostile_calls_are_refused_in_few_bytes(site: Site) -> None:
    worker = site.key(scopes=SCOPES)
    for tool, arguments in HOSTILE:
        answer = await site.modern(worker, "tools/call", name=tool, arguments=arguments)
        assert answer.status_code < 500, (tool, arguments)
        result = answer.json()["result"]
        assert result["isError"], (tool, arguments)
        text = result["content"][0]["text"]
        assert len(text.encode()) <= 1_024, (tool, arguments)
        assert "defect" not in text, (tool, arguments, text)


async def test_hostile_reports_on_a_held_claim_change_nothing(site: Site) -> None:
    task_id = await scheduled(site, site.key("acme", "ann"))
    worker = site.key("acme", "bot", scopes=SCOPES)
    [claimed] = (await site.call(worker, "claim_runs", wait="20 s"))["structuredContent"]["claims"]
    deep: Any = {}
    for _ in range(80):
        deep = {"a": deep}
    for tool, arguments in (
        ("finish_run", {"outcome": "done", "result": deep}),
        ("finish_run", {"outcome": "done", "usage": {"gpu": 1}}),
        ("finish_run", {"outcome": "retry", "retry_in": 1e300}),
        ("finish_run", {"outcome": "retry", "retry_in": "2000 days"}),
        ("checkpoint_run", {"state": deep}),
        ("checkpoint_run", {"state": {"x": "x" * 70_000}}),
    ):
        refused = await site.call(worker, tool, claim=claimed["claim"], **arguments)
        assert refused["isError"], (tool, arguments)
        assert len(refused["content"][0]["text"].encode()) <= 1_024
        assert "defect" not in refused["content"][0]["text"], refused
    assert site.app.store.tasks.get("acme", task_id).run.checkpoint is None
    done = await site.call(worker, "finish_run", claim=claimed["claim"], outcome="done", summary="x" * 9_000)
    assert done["structuredContent"]["run_state"] == "succeeded"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "payload: 'url' is a required property. Accepted: an object of url, speed (optional). Example:"),
    ({"url": 7}, "payload.url: 7 is not of type 'string'."),
    ({"url": "https://example.com", "speed": "warp"}, "payload.speed: 'warp' is not one of ['fast', 'slow']."),
]


async def test_a_payload_that_does_not_meet_the_schema_of_its_action_is_refused(site: Site) -> None:
    for payload, said in WRONG:
        refused = await site.call(site.key(), "schedule_task", title="T", action="transcribe", payload=payload)
        assert refused["isError"]
        assert said in refused["content"][0]["text"]
        assert "Example: payload={'url': " in refused["content"][0]["text"]
    assert site.app.store.history.latest() == 0
