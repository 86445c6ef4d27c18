"""The target of the attacks: a server with something of tenant A to steal, and the keys of an attacker of tenant B."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from duetime.scheduler.errors import MAX_REFUSAL_BYTES
from duetime.scheduler.store.schema.tables.events import events
from sqlalchemy import select

from tests.flow.auth.conftest import Site, bearer, serving

CANARY = "canary7f3a"
MAX_ANSWER_CPU_S = 2.0


@dataclass(slots=True)
class Target:
    """A server under attack; `wrong` collects each answer that is not as it should be."""

    site: Site
    key: str
    admin_key: str
    task_id: str
    run_id: str
    undo: str
    victim_key_id: str
    wrong: list[str] = field(default_factory=list)

    async def attack(
        self, method: str, path: str, *, token: str | None = "", refused: bool = False, **given: Any
    ) -> httpx2.Response | None:
        """Send a request and judge its answer; with `refused`, nothing but a refusal is right."""
        headers = [*given.pop("headers", {}).items()]
        if token is not None:
            headers += bearer(token or self.key).items()
        before, began = self.site.app.store.history.last_id(), time.process_time()
        said = f"{method} {path[:100]!r} {str(given)[:160]}"
        try:
            answer = await self.site.http.request(method, path, headers=headers, **given)
        except (UnicodeError, httpx2.InvalidURL, ValueError):
            return None  # the client cannot send it
        self._judge(said, answer, time.process_time() - began, refused=refused)
        if answer.status_code >= 400 and self._stored_since(before):
            self.wrong.append(f"{said}: something was stored by a refused request")
        return answer

    def _judge(self, said: str, answer: httpx2.Response, took_s: float, *, refused: bool) -> None:
        if answer.status_code >= 500:
            self.wrong.append(f"{said}: {answer.status_code} {answer.text[:200]}")
        if refused and answer.status_code < 400:
            self.wrong.append(f"{said}: not refused, {answer.status_code} {answer.text[:200]}")
        page = answer.headers.get("content-type", "").startswith("text/html")
        if answer.status_code >= 400 and not page and len(answer.content) > MAX_REFUSAL_BYTES:
            self.wrong.append(f"{said}: a refusal of {len(answer.content)} bytes")
        if CANARY in answer.text or CANARY in str(answer.headers):
            self.wrong.append(f"{said}: reveals tenant A")
        if took_s > MAX_ANSWER_CPU_S:
            self.wrong.append(f"{said}: took {took_s:.1f} s")

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool over MCP and judge its answer."""
        before, began = self.site.app.store.history.last_id(), time.process_time()
        said = f"{tool} {str(arguments)[:160]}"
        try:
            answer = await self.site.modern(self.key, "tools/call", name=tool, arguments=arguments)
        except (UnicodeError, ValueError):
            return
        self._judge(said, answer, time.process_time() - began, refused=False)
        found = answer.json() if answer.status_code == 200 else {}
        result = found.get("result", found.get("error", {}))
        if "defect" in answer.text[:600]:
            self.wrong.append(f"{said}: a defect: {answer.text[:300]}")
        if result.get("isError") and len(str(result.get("content"))) > 2 * MAX_REFUSAL_BYTES:
            self.wrong.append(f"{said}: a refusal of {len(answer.text)} bytes")
        if result.get("isError") and self._stored_since(before):
            self.wrong.append(f"{said}: something was stored by a refused call")

    async def ask(self, method: str, params: dict[str, Any], session: dict[str, str]) -> None:
        """Send a request of the protocol that is no call of a tool, and judge its answer."""
        before, began = self.site.app.store.history.last_id(), time.process_time()
        said = f"{method} {str(params)[:160]}"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            if session:
                answer = await self.site.post(self.key, body, **session)
            else:
                answer = await self.site.modern(self.key, method, **params)
        except (UnicodeError, ValueError):
            return  # the client cannot send it
        self._judge(said, answer, time.process_time() - began, refused=False)
        if "defect" in answer.text[:600] or self._stored_since(before):
            self.wrong.append(f"{said}: a defect, or something was stored: {answer.text[:300]}")

    def _stored_since(self, event_id: int) -> bool:
        """Say whether a caller changed something: the server itself may at any time, as when a task is due.

        The table is read, for followers may see an event a moment later than its caller on PostgreSQL.
        """
        by_caller = select(events.c.id).where(events.c.id > event_id, events.c.via.is_not(None)).limit(1)
        return bool(self.site.app.store._database.read(lambda connection: connection.execute(by_caller).all()))

    async def survives(self) -> None:
        """Fail with all that was wrong, or unless the server still serves everybody."""
        assert not self.wrong, f"{len(self.wrong)} wrong:\n" + "\n".join(self.wrong[:40])
        assert (await self.site.http.get("/readyz")).text == "ok"
        before = self.site.app.store.history.last_id()
        made = await self.site.call(self.key, "schedule_task", title="Well", when="in 1 hour")
        assert self._stored_since(before)
        assert made["structuredContent"]["created"]
        kept = self.site.app.scheduler.get(self.task_id, by=self._owner())
        assert kept.record.task.title == f"{CANARY} report"
        assert kept.record.run.id == self.run_id

    def _owner(self) -> Any:
        from duetime.scheduler.principal import Principal

        return Principal("acme", "ann")


@asynccontextmanager
async def under_attack(folder: Path, **settings: Any) -> AsyncIterator[Target]:
    """Serve two tenants, of which the first has tasks with the canary wherever a caller writes."""
    async with serving(folder, **{"auth": "keys", **settings}) as site:
        victim = site.key("acme", "ann")
        made = await site.call(
            victim,
            "schedule_task",
            title=f"{CANARY} report",
            when="in 2 hours",
            payload={"message": CANARY},
            labels=[CANARY],
            idempotency_key=f"key-{CANARY}",
        )
        task_id = made["structuredContent"]["id"]
        moved = await site.call(victim, "reschedule_task", task_id=task_id, when="in 3 hours")
        undo = str(moved["structuredContent"].get("undo", {}))
        run_id = site.app.store.tasks.get("acme", task_id).run.id
        everything = ("tasks", "worker", "admin:read", "admin")
        yield Target(
            site,
            site.key("globex", "bob"),
            site.key("globex", "eve", scopes=everything),
            task_id,
            run_id,
            undo,
            victim.split("_")[1],
        )
