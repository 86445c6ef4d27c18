"""The admin page in a real `duetime serve` on a port, for a real browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from duetime.scheduler.handlers import Plugin
from duetime.server.app import App, build
from duetime.server.auth.guard import Guard
from duetime.server.settings.model import Settings
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.http import HttpSite, http_app, listening
from duetime.server.transport.serve_http import connect, surfaces

URL = "the address of the server"


@dataclass(frozen=True, slots=True)
class Served:
    """A server of this process, at its address."""

    app: App
    url: str


@contextmanager
def served(url: str, *, runs: bool = False, handlers: Sequence[Plugin] = (), **settings: Any) -> Iterator[Served]:
    """Serve a database for the time of the block; with `runs` due tasks are run too, also by these handlers.

    `URL` among the settings stands for the address of the server.
    """
    common: dict[str, Any] = {
        "database_url": url,
        "desktop_notifications": "off",
        "timezone": "UTC",
        "sqlite_synchronous": "OFF",
    }
    common["yield_to_load"] = False  # runs of a test are at work together on a busy machine too
    with ExitStack() as stack:
        bound = stack.enter_context(listening("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        given = {name: address if value == URL else value for name, value in settings.items()}
        made = Settings.model_validate({**common, **given})
        app = stack.enter_context(build(made, handlers=handlers))
        if runs:
            app.start()
        guard = Guard.of(made, lambda: app.store)
        access, routes = HttpAccess.of(made), surfaces(app, guard)
        asgi = http_app(HttpSite(connect(app, guard), app.ready, access, routes, app.observers.refused))
        server = uvicorn.Server(uvicorn.Config(asgi, log_level="critical", lifespan="on", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])), daemon=True)
        thread.start()
        try:
            yield Served(app, address)
        finally:
            server.should_exit = True
            thread.join(timeout=60)
