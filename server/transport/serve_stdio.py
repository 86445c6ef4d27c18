"""Serves an application over stdio: the implementation of `duetime` without a verb.

The client waits for the first answer, so this module imports nothing that only tasks need.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING

from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.garbage import collect_less
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.runtime.warm_up import warm_up
from duetime.server.settings.handlers import load_handlers
from duetime.server.settings.model import Settings
from duetime.server.telemetry.trace_setup import configured_tracing
from duetime.server.transport.deferred_app import DeferredApp, sign_of
from duetime.server.transport.stdio import run_stdio
from duetime.server.transport.stdio_wire import Wire
from duetime.tools.schedule_task import actions_of

if TYPE_CHECKING:
    from duetime.server.app import App


def serve_stdio(settings: Settings) -> int:
    """Serve one client over stdin and stdout until it leaves; return the exit code. Logs go to stderr.

    Wrong settings and handlers that cannot be loaded end the process before it serves. A database that cannot be
    opened ends nothing: each call says so.
    """
    wire = Wire.claim()  # before the import of handlers, whose prints must not reach the client
    configure_logs(settings.log_level, settings.log_format, prints=settings.capture_prints)
    settings.create_data_directory()
    configured_tracing()  # before the first call, whose span the SDK makes

    def build() -> App:
        app: App = import_module("duetime.server.app").build(settings, via="stdio")
        app.listeners.append(changes.touched)
        collect_less()
        warm_up()
        return app

    app = DeferredApp(build)
    changes = Subscriptions(app.history)
    actions, external = actions_of(load_handlers(settings)), bool(settings.external_actions)
    server = make_server(app.scheduler, changes, actions=actions, pools=sorted(settings.pools), external=external)
    gc.freeze()
    return run_stdio(
        server,
        wire,
        ends=ProcessEnd(begin=app.begin_end, hurry=app.hurry, close=app.close),
        grace=settings.grace_seconds,
        on_request=lambda method: app.note(sign_of(method)),
    )
