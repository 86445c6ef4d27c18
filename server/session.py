"""The session of a verb: the global options, the settings from them, and the application."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer
    from duetime.scheduler.principal import Principal
    from duetime.scheduler.service.scheduler import Scheduler
    from duetime.scheduler.store import Store
    from duetime.server.app import App
    from duetime.server.settings.model import Settings
    from duetime.server.setup.invocation import Invocation


def cli_way() -> str:
    """Return by which way a verb acts: the command line, and the operating system's name of its user."""
    try:
        import pwd  # noqa: PLC0415 - only where there are such users

        return f"cli {pwd.getpwuid(os.getuid()).pw_name}"
    except (ImportError, KeyError):
        return f"cli {os.environ.get('USERNAME', '')}".strip()


def cli_caller() -> Principal:
    """Return the local user, as verbs act in his name."""
    from duetime.scheduler.principal import LOCAL  # noqa: PLC0415 - only for verbs that change something

    return replace(LOCAL, via=cli_way())


@dataclass(frozen=True, slots=True)
class Session:
    """The global options of one command; with a `server`, its verb works there, with the API key `key`.

    `call_server` runs a verb there.
    """

    config: Path | None = None
    database_url: str | None = None
    handlers: str | None = None
    server: str | None = None
    key: str | None = None
    call_server: Callable[[typer.Context], Any] | None = None

    def settings(self, **overrides: Any) -> Settings:
        """Load the settings; the options of the command line win. Raises InvalidSetting.

        Handlers named on the command line may lie in the current directory.
        """
        if self.handlers and str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        load: Callable[..., Settings] = import_module("duetime.server.settings").load_settings
        return load(self.config, database_url=self.database_url, handlers=self.handlers, **overrides)

    def zone(self) -> str:
        """Return the zone of wall times that a table shows: that of the settings of this machine, or UTC."""
        return self.settings().timezone or "UTC"

    @contextmanager
    def app(self, settings: Settings | None = None) -> Iterator[App]:
        """Build the application for the duration of the block."""
        # Database, broker and handlers are loaded only by the verbs that use them.
        build = import_module("duetime.server.app").build
        with build(settings or self.settings(), via=cli_way()) as app:
            yield app

    @contextmanager
    def store(self, *, create: bool = False) -> Iterator[Store]:
        """Open the database alone for the duration of the block; `create` makes or upgrades an SQLite file first."""
        settings = self.settings()
        create = create and settings.database_url.startswith("sqlite")
        if create:
            settings.create_data_directory()
        keys = import_module("duetime.server.settings.secret_keys").store_keys(settings)
        store: Store = import_module("duetime.scheduler.store").open_store(
            settings.database_url, migrate=create, **keys
        )
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def scheduler(self) -> Iterator[Scheduler]:
        """Open the service for the duration of the block; changes wake the runner, in any process."""
        with self.app() as app:
            yield app.scheduler

    def serve_client(self) -> int:
        """Serve one chat client until its input ends, and return the exit code."""
        if sys.stdin.isatty():
            sys.stderr.write(
                "duetime waits for an MCP client on stdin; for the command-line verbs, see duetime --help\n"
            )
        settings = self.settings()
        return int(import_module("duetime.server.transport.serve_stdio").serve_stdio(settings))

    def invocation(self) -> Invocation:
        """Return the command that starts this `duetime` from any directory with the same options."""
        this: Callable[..., Invocation] = import_module("duetime.server.setup.invocation").this_invocation
        return this(config=self.config, database_url=self.database_url, handlers=self.handlers or "")


def session(context: typer.Context) -> Session:
    """Return the session of the command that runs."""
    root = context.find_root()
    if not isinstance(root.obj, Session):
        root.obj = Session()
    return root.obj


def someone_runs(app: App) -> bool:
    """Whether a process of this machine runs the tasks of the database now."""
    if not app.settings.database_url.startswith("sqlite"):
        return True  # perhaps on another machine, which cannot be asked from here
    ipc = import_module("duetime.scheduler.nodes.ipc")
    return bool(ipc.RunnerClient(app.store).wake(ipc.ANSWER_TIMEOUT_S))


def open_session(context: typer.Context, **options: Any) -> None:
    """Store the global options for the verb that follows."""
    context.obj = replace(Session(), **options)
