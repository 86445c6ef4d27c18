"""The overview counts as far as is read, and says where that ends; what waits for somebody stands there."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from duetime.scheduler.history import dead_letters
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.store.dead_letters import selection
from duetime.scheduler.store.run_history import run_counts
from duetime.server.admin import renderer
from duetime.server.admin.pages import overview
from jinja2 import Environment

from tests.flow.admin.conftest import Admin, Open
from tests.flow.admin.sample import fill

pytestmark = pytest.mark.anyio

MAX_COUNTED_RUNS = 5
PARTLY = "of so many runs the newest alone are counted"


@pytest.fixture
async def admin(tmp_path: Path, admin_page: Open) -> Admin:
    fill(f"sqlite:///{tmp_path}/duetime.db", 120)
    return await admin_page()


def tiles(html: str) -> dict[str, tuple[str, str]]:
    """Return the number and the address of each tile."""
    found = re.findall(r'<a href="/admin([^"]*)"><b>([^<]*)</b><small>([^<]*)</small>', html)
    return {text: (number, unescape(address)) for address, number, text in found}


def ends(html: str) -> list[list[int | None]]:
    """Return the points of the chart of ends."""
    chart = re.search(r'aria-label="Runs that ended[^>]*data-points="([^"]*)"', html)
    assert chart is not None
    found: list[list[int | None]] = json.loads(unescape(chart[1]))
    return found


async def test_the_first_overview_compiles_nothing_that_a_server_has_loaded(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer.environment.cache_clear()
    renderer.load_overview()
    monkeypatch.setattr(Environment, "compile", None)
    assert "Runs that ended" in (await admin.get("")).text


async def test_the_overview_says_where_its_counts_end(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (await admin.get("")).text
    assert PARTLY not in whole
    assert None not in ends(whole)[1]
    assert not any(number.endswith("+") for number, _ in tiles(whole).values())
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", MAX_COUNTED_RUNS)
    partly = (await admin.get("?tenant=local")).text
    found = tiles(partly)
    numbers = [found["succeeded in 24 h"][0], found["failed in 24 h"][0]]
    assert all(number.endswith("+") for number in numbers)
    assert sum(int(number[:-1]) for number in numbers) < sum(value or 0 for line in ends(whole)[1:] for value in line)
    assert partly.count(PARTLY) >= 1
    assert "the hours before are not known" in partly
    drawn = ends(partly)[1]
    assert drawn[0] is None
    assert drawn[-1] is not None
    assert drawn == sorted(drawn, key=lambda value: value is not None), "hours that are not known are the earliest"


async def test_the_tiers_say_where_their_counts_end(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    def ready(html: str) -> list[str]:
        return re.findall(r'data-name="(?:Ready|Running)">([^<]*)</td>', html)

    for n in range(MAX_COUNTED_RUNS + 2):
        admin.site.app.scheduler.schedule(f"Now {n}", when="now", priority="low")
    admin.site.app.store.claims.make_ready(limit=99)
    whole = ready((await admin.get("")).text)
    assert not any(number.endswith("+") for number in whole)
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", MAX_COUNTED_RUNS)
    partly = ready((await admin.get("?tenant=local")).text)
    assert all(number.endswith("+") for number in partly[::2]), "of each tier there may be more that are ready"
    assert not any(number.endswith("+") for number in partly[1::2]), "none runs"


async def test_more_dead_letters_than_are_counted_are_at_least_so_many(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, _ = tiles((await admin.get("")).text)["dead letters"]
    assert int(number) > 1
    for module in (selection, dead_letters, overview):
        monkeypatch.setattr(module, "MAX_LETTERS_COUNTED", int(number) - 1)
    assert tiles((await admin.get("")).text)["dead letters"][0] == f"{int(number) - 1}+"
    tried = admin.site.app.scheduler.letters.replay(max_letters=1, dry_run=True, by=LOCAL)
    assert (tried.matched, tried.at_least) == (int(number) - 1, True)


async def test_the_tile_of_waiting_runs_counts_the_open_questions(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    assert tiles((await admin.get("")).text)["waiting"][0] == "0"
    scheduler.schedule("Wait for the payment", wait_for={"event": "paid"})
    asking = scheduler.schedule("Pay 900", approval={"question": "Pay 900?"}).record
    number, address = tiles((await admin.get("")).text)["waiting, 1 to answer"]
    listed = (await admin.get(address)).text
    assert (number, "Wait for the payment" in listed, "Pay 900" in listed) == ("2", True, True)
    assert 'aria-current="true">waiting<' in listed
    scheduler.approve(asking.task.id)
    assert tiles((await admin.get("")).text)["waiting"][0] == "1"


async def test_a_question_of_a_handler_is_counted_where_its_run_is_listed(admin: Admin) -> None:
    store = admin.site.app.store
    record = admin.site.app.scheduler.schedule("Pay 900", when="now").record
    store.claims.make_ready(limit=1)
    [claim] = store.claims.start([Start(record.run.id)], worker="w", epoch=None, lease=timedelta(hours=1))
    store.claims.settle([settle(claim, Wait(approval="Pay 900?"), now=store.now(), jitter=0.5)])
    number, address = tiles((await admin.get("")).text)["trying again, 1 to answer"]
    assert (number, "Pay 900" in (await admin.get(address)).text) == ("1", True)


async def test_each_tile_counts_what_the_list_that_it_opens_shows(admin: Admin) -> None:
    scheduler = admin.site.app.scheduler
    for n in range(3):
        scheduler.schedule(f"Later {n}", when=timedelta(hours=n + 1))
    scheduler.schedule("Wait for the payment", wait_for={"event": "paid"})
    for text, (number, address) in tiles((await admin.get("")).text).items():
        name = "dead_letters" if text == "dead letters" else "runs"
        rows = json.loads((await admin.get(f"{address}{'&' if '?' in address else '?'}format=json")).text)[name]
        assert number == str(len(rows)), text
