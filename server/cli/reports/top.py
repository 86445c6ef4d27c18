"""The verb `top`: live statistics of an installation in the terminal, a frame every few seconds."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, Final

import typer
from duetime.scheduler.errors import DuetimeError
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.cli.reports.top_frame import frame, message
from duetime.server.rest.administration.top import top_json
from duetime.server.session import session
from rich.console import Console
from rich.live import Live

USUAL_INTERVAL_S: Final = 2.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.5, 3_600.0

ReadFrame = Callable[[], Mapping[str, Any]]
FrameInterval = Annotated[
    float, typer.Option(min=MIN_INTERVAL_S, max=MAX_INTERVAL_S, help="seconds between two frames, 0.5 to 3600")
]
OneFrame = Annotated[bool, typer.Option("--once", help="write one frame and end, as into a pipe")]


def top(
    context: typer.Context,
    *,
    interval: FrameInterval = USUAL_INTERVAL_S,
    once: OneFrame = False,
    as_json: AsJson = False,
) -> None:
    """Show what waits and runs now, by tier, pool and worker, and what was missed, until Ctrl-C."""
    with session(context).app() as app:
        watch(
            lambda: top_json(app.store, app.remote_queue, app.backlog),
            session(context).zone(),
            interval,
            once=once,
            as_json=as_json,
        )


def watch(read: ReadFrame, zone: str, interval_s: float, *, once: bool, as_json: bool) -> None:
    """Show frames until Ctrl-C; one alone where it is asked for, and where stdout is no terminal."""
    if as_json:
        output.as_json(dict(read()))
    elif once or not sys.stdout.isatty():
        output.console().print(frame(read(), zone, output.console().width), soft_wrap=False)
    else:
        _live(read, zone, interval_s)


def _live(read: ReadFrame, zone: str, interval_s: float) -> None:
    """Draw on the other screen of the terminal, which is as it was in the end, however that comes."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with _ends_by_signal(), Live(console=console, screen=True, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_shown(read, zone, console.width), refresh=True)
            time.sleep(interval_s)


def _shown(read: ReadFrame, zone: str, width: int) -> Any:
    """Return the next frame; while there is none to read, why: the next one may be."""
    try:
        return frame(read(), zone, width)
    except DuetimeError as error:
        return message(str(error))


@contextmanager
def _ends_by_signal() -> Iterator[None]:
    """End in order by Ctrl-C, which is how people leave, and by SIGTERM."""

    def end(_number: int, _where: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)
