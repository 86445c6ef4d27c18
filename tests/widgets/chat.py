"""A chat in a real browser with one card in it, as tests drive it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from duetime.widgets.cards import cards
from playwright.sync_api import Frame, Locator, Page, ViewportSize

from tests.widgets.browsers import PATIENCE_MS
from tests.widgets.pictures import indexed
from tests.widgets.sample import NOW, FakeServer, result

Serve = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Answers a call of a card: the tool's name and its arguments."""

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
CAN_CALL_TOOLS: dict[str, Any] = {"serverTools": {}, "updateModelContext": {"text": {}, "structuredContent": {}}}
CLOCK_STEP_S = 10
"""Less than a card waits for an answer, which comes between two steps."""
READER = {"theme": "light", "locale": "en-US", "timeZone": "America/Denver", "displayMode": "inline"}

SIZE: ViewportSize = {"width": 560, "height": 800}
ONCE_AS_HIGH_AS_ITS_CARD = """() => new Promise((then) => {
  const root = document.documentElement;
  const look = () => {
    if (Math.ceil(root.getBoundingClientRect().height) !== innerHeight) return;
    sizes.disconnect();
    removeEventListener("resize", look);
    then();
  };
  const sizes = new ResizeObserver(look);
  addEventListener("resize", look);
  sizes.observe(root);
})"""


ASKED = "host[what](value)"


def html_of(name: str) -> str:
    return next(card.html for card in cards() if card.name == name)


class Chat:
    """The host's side: `send` what hosts send, look at what the card asked for, and at the card itself."""

    def __init__(self, page: Page, serve: Serve | None = None) -> None:
        self.page = page
        self.server = FakeServer()
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self.problems.append(said.text) if said.type in {"error", "warning"} else None)
        page.expose_function("serve", serve or self._serve)

    def clear(self) -> None:
        """Make it an empty chat at `NOW`, over an empty server; what no test has changed is left as it is."""
        now_ms, printed, pointed = self.page.evaluate("() => host.clear()")
        if pointed:
            self.page.mouse.move(-1, -1)
        if self.page.viewport_size != SIZE:
            self.page.set_viewport_size(SIZE)
        if printed:
            self.page.emulate_media(media="null")
        if now_ms != NOW.timestamp() * 1000:
            self.page.clock.set_system_time(NOW)  # each card to come repeats what is done to the clock here
        self.server = FakeServer()
        self.problems.clear()

    @property
    def card(self) -> Frame:
        """Return the frame of the card that is in the chat; to look for the frame first would double each look."""
        [frame] = self.page.main_frame.child_frames
        return frame

    def load(
        self, name: str, *, width: int | None = None, capabilities: dict[str, Any] | None = None, **context: Any
    ) -> None:
        """Put a card into the chat and wait until it has greeted the host."""
        able = CAN_CALL_TOOLS if capabilities is None else capabilities
        html = html_of(name)
        card = {"page": f"{name} {hash(html)}", "context": {**READER, **context}, "capabilities": able, "width": width}
        card["patience"] = PATIENCE_MS
        if not self._ask("load", card):
            self._ask("load", {**card, "html": html})

    def settle(self) -> None:
        """Wait until card and host have taken what they sent each other; only calls that are held are not answered.

        The page waits itself: `wait_for_function` would have it loaded with what Playwright looks for elements by.
        """
        self.page.evaluate("() => host.settled()")

    def await_seen(self, what: str) -> Any:
        """Give what the host has seen once it has, and fail when it never does."""
        return self.page.wait_for_function("what => window.host.seen[what]", arg=what).json_value()

    def show(self, structured: dict[str, Any]) -> None:
        self.send("result", result(structured))

    def show_task(self, task: dict[str, Any], **context: Any) -> None:
        """Put a task into the server and its card into the chat."""
        self.server.tasks[task["id"]] = task
        self.load("task-card", **context)
        self.show(task)

    def pass_time(self, seconds: float) -> None:
        """Let the frozen clocks of the page and of the server go on; what the card asks is answered after each step."""
        self.settle()
        while seconds > 0:
            self._step(min(seconds, CLOCK_STEP_S))
            seconds -= CLOCK_STEP_S

    def _step(self, seconds: float) -> None:
        """Run the timers of one step, without an answer among them: which timers it came before would be chance."""
        self._ask("run")
        away = round(seconds * 1000)
        self.card.evaluate("away => { window.passed = new Promise((then) => setTimeout(then, away)); }", away)
        self.page.clock.run_for(away)  # it returns before the timers have run
        self.card.evaluate("() => window.passed")
        self.server.now += timedelta(seconds=seconds)
        self.settle()

    def state(self) -> Locator:
        return self.card.locator(".state[data-state]")

    def told_model(self) -> list[str]:
        return [context["content"][0]["text"] for context in self.seen("contexts")]

    def send(self, what: str, value: Any = None) -> None:
        """Do something as the host, and wait until the card has taken it."""
        self.page.evaluate(f"async ([what, value]) => {{ await {ASKED}; await host.settled(); }}", [what, value])

    def seen(self, what: str) -> Any:
        """Give what the host has seen of all that the card has sent by now."""
        return self.page.evaluate("async (what) => { await host.settled(); return host.seen[what]; }", what)

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call["name"], call["arguments"]) for call in self.seen("calls")]

    def fit(self) -> None:
        """Wait until the frame is as high as its card: while it grows, what is to be clicked moves."""
        self.settle()
        self.card.evaluate(ONCE_AS_HIGH_AS_ITS_CARD)

    def click(self, target: Locator) -> None:
        """Click something that stands still."""
        self.fit()
        target.click()

    @property
    def too_wide(self) -> bool:
        """Whether the card is wider than its frame."""
        return bool(
            self.card.evaluate(
                "(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.documentElement)"
            )
        )

    def wake(self) -> None:
        """Let the page of the card be looked at again."""
        self.card.evaluate("() => void document.dispatchEvent(new Event('visibilitychange'))")

    def press(self, name: str) -> None:
        self.click(self.button(name))

    def choice(self, text: str) -> Locator:
        """Find a choice of a panel that has opened, by the start of its name; the rest says what it results in."""
        self.fit()
        return self.card.get_by_role("button", name=re.compile(f"^{text}"))

    def button(self, name: str) -> Locator:
        return self.card.get_by_role("button", name=name, exact=True)

    def said(self) -> Locator:
        """Find the live region that a screen reader reads out."""
        return self.card.locator("p[role=status]")

    def focused(self) -> Any:
        return self.card.evaluate("() => document.activeElement.dataset.key ?? document.activeElement.tagName")

    def picture(self, name: str) -> Path:
        """Show the docs' picture of the card; it is taken again when it is missing or `CARD_PICTURES` is set."""
        path = IMAGES / f"{name}.png"
        if os.environ.get("CARD_PICTURES") or not path.exists():
            taken = self.page.locator("#chat").screenshot(animations="disabled", caret="hide")
            IMAGES.mkdir(parents=True, exist_ok=True)
            path.write_bytes(indexed(self.page, taken))
        return path

    def _serve(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        return self.server.serve(name, args)  # of the test that runs now

    def _ask(self, what: str, value: Any = None) -> Any:
        return self.page.evaluate(f"([what, value]) => {ASKED}", [what, value])
