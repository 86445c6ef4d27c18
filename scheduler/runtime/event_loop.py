"""The event loop of async handlers, on a thread of its own; one that is blocked, or that failed, is replaced."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress

log = logging.getLogger(__name__)


class EventLoop:
    """Runs coroutines for other threads. `replace` abandons a blocked loop, which ends after its last coroutine.

    asyncio raises `SystemExit` and `KeyboardInterrupt` of any task out of the loop too. The loop continues after them:
    they end the coroutine that raised them, and nothing else.
    """

    def __init__(self) -> None:
        self._blocked: set[threading.Thread] = set()
        self._ending: set[asyncio.AbstractEventLoop] = set()

    @property
    def blocked(self) -> int:
        """The number of abandoned loops that have not ended."""
        return len(self._blocked)

    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        name = "duetime-async-handlers"
        self._thread = threading.Thread(target=self._run, args=(self.loop,), name=name, daemon=True)
        self._thread.start()

    def replace(self, blocked: asyncio.AbstractEventLoop) -> bool:
        """Send new coroutines to a new loop; False when `blocked` was replaced before."""
        if blocked is not self.loop:
            return False
        self._blocked.add(self._thread)
        asyncio.run_coroutine_threadsafe(self._end_after_the_last(), blocked)
        self.start()
        return True

    def stop(self, timeout: float) -> None:
        """End the loop; coroutines that still run, and blocked loops, end with the process."""
        self._ending.add(self.loop)
        with suppress(RuntimeError):  # it is closed already
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while loop not in self._ending:  # a handler may have stopped it
                with suppress(SystemExit, KeyboardInterrupt):
                    loop.run_forever()
        except Exception:
            log.exception("the event loop of async handlers failed, so a new loop replaces it")
            if loop is self.loop:
                self.start()
        finally:
            self._ending.discard(loop)
            self._blocked.discard(threading.current_thread())
            loop.close()

    async def _end_after_the_last(self) -> None:
        """Stop this loop when every other coroutine on it has ended."""
        loop = asyncio.get_running_loop()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
            await asyncio.sleep(0)  # coroutines sent just before the replacement begin now
        self._ending.add(loop)
        loop.stop()
