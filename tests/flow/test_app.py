"""The application as it is built from settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from duetime import Scheduler
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable
from duetime.scheduler.nodes.runner import Runner
from duetime.scheduler.store import open_store
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings

from tests.flow.waiting import eventually


def settings(folder: Path, **more: object) -> Settings:
    values = {"database_url": f"sqlite:///{folder / 'duetime.db'}", "timezone": "UTC", "desktop_notifications": "off"}
    return Settings.model_validate({**values, **more})


def test_a_desktop_that_a_machine_has_not_does_not_stand_in_the_way_of_scheduling(tmp_path: Path) -> None:
    with build(settings(tmp_path, deliver_to=("desktop",))) as app:
        assert app.scheduler.schedule("Stretch", when="in 2 hours").record.task.deliver_to == ()


def test_a_channel_is_told_by_default_when_the_settings_say_so(tmp_path: Path) -> None:
    team = {"webhook": "https://example.com/hook", "secret": "whsec_" + "QUJD" * 10}
    with build(settings(tmp_path, deliver_to=("team",), channels={"team": team})) as app:
        assert app.scheduler.schedule("Stretch", when="in 2 hours").record.task.deliver_to == ("webhook:team",)


def test_a_channel_takes_the_outcomes_that_its_settings_name_and_all_by_default(tmp_path: Path) -> None:
    hook = {"webhook": "https://example.com/hook", "secret": "whsec_" + "QUJD" * 10}
    channels = {"team": hook, "pager": {**hook, "outcomes": ["failed", "expired"]}}
    more = {"desktop_notifications": "on", "desktop_outcomes": "failed"}
    with build(settings(tmp_path, channels=channels, **more)) as app:
        ends = (State.SUCCEEDED, State.FAILED, State.EXPIRED)
        taken = {name: [end for end in ends if app.channels.takes(name, end)] for name in app.channels}
    assert taken == {"desktop": [State.FAILED], "webhook:team": [*ends], "webhook:pager": [*ends[1:]]}


def test_an_external_action_with_the_name_of_a_handler_stops_the_start(tmp_path: Path) -> None:
    actions = {"external_actions": {"webhook": {"description": "Calls"}}}
    with pytest.raises(InvalidSetting, match=r"'webhook' is the action of a handler \(.*\[external_actions\.webhook-"):
        build(settings(tmp_path, **actions))
    with pytest.raises(InvalidSetting, match=r"isolated_actions: transcribe is an external action"):
        build(settings(tmp_path, external_actions={"transcribe": {"description": "T"}}, isolated_actions="transcribe"))


def schedule_many(app: App) -> None:
    """Schedule as much as a full disk surely has no room for."""
    for _ in range(100):
        app.scheduler.schedule("Stretch", when="in 2 hours", payload={"message": "x" * 2000})


def test_a_process_whose_disk_is_full_is_not_ready_until_it_can_write_again(tmp_path: Path) -> None:
    with build(settings(tmp_path)) as app:
        assert app.ready() == "ok"
        database = app.store._database
        assert isinstance(database, Sqlite)
        pages = database._raw.execute("PRAGMA page_count").fetchone()[0]
        database._raw.execute(f"PRAGMA max_page_count={pages}").fetchone()
        with pytest.raises(StoreUnavailable, match="disk is full"):
            schedule_many(app)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            app.ready()
        database._raw.execute("PRAGMA max_page_count=1000000").fetchone()
        app.scheduler.schedule("Stretch", when="in 2 hours")
        assert app.ready() == "ok"


def test_a_run_that_an_event_of_another_process_releases_starts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.dispatch.dispatcher.MAX_DISPATCH_SLEEP_S", 3600.0)
    with build(settings(tmp_path)) as app, build(settings(tmp_path)) as sender:
        app.start()
        runner = app.runner
        assert isinstance(runner, Runner)
        eventually(lambda: runner.running, "the runner")
        task = sender.scheduler.schedule("Ship it", wait_for={"event": "order.paid"}).record.task
        assert sender.scheduler.signals.send("order.paid").freed == 1
        eventually(lambda: app.scheduler.get(task.id).record.run.state is State.SUCCEEDED, "it ran")


def test_a_process_that_only_schedules_does_not_become_the_runner(tmp_path: Path) -> None:
    with Scheduler.open(settings(tmp_path), run=False) as scheduler:
        scheduler.schedule("Stretch", when="in 2 hours")
    with build(settings(tmp_path)) as app:
        assert app.store.runners.current() is None


@pytest.mark.parametrize(("after", "left"), [("", {"gpu", "disk"}), ("[pools.gpu]", {"gpu"}), ("[pools]", set())])
def test_a_pool_that_the_settings_name_no_more_is_removed_but_not_by_settings_without_pools(
    tmp_path: Path, after: str, left: set[str]
) -> None:
    named = tmp_path / "duetime.toml"
    database = f'database_url = "sqlite:///{tmp_path / "duetime.db"}"'
    for said in ("[pools.gpu]\n[pools.disk]", after):
        named.write_text(f"{database}\n{said}", encoding="utf-8")
        build(load_settings(named)).close()
    with build(load_settings(named)) as app:
        assert set(app.registry.read()) == left


def test_a_missing_driver_of_postgresql_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # importing it fails now, as where it is not installed
    with pytest.raises(InvalidSetting, match=r"pip install '\.\[postgres\]'"):
        open_store("postgresql://duetime@localhost/duetime")


def test_the_country_of_the_public_holidays_reaches_phrases_and_rules(tmp_path: Path) -> None:
    with build(settings(tmp_path, holidays="ca-ab", timezone="America/Edmonton")) as app:
        once = app.scheduler.schedule("Sleep in", when="next public holiday at 10:00")
        snoozed = app.scheduler.act(once.record.task.id, "snooze", until="the day after the next public holiday")
        listed = app.scheduler.tasks.list(after="last week", before="next public holiday")
        often = app.scheduler.schedule("Stand-up", repeat="every weekday at 9:00 except public holidays")

    assert listed.where.before is not None
    assert snoozed.record.run.wake_at is not None
    assert "next public holiday in CA-AB" in " ".join(once.warnings)
    assert often.record.task.repeat == "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0;X-EXCEPT-HOLIDAYS=CA-AB"


def test_a_country_that_has_no_calendar_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no calendar of public holidays 'CA-ZZ'"):
        build(settings(tmp_path, holidays="CA-ZZ"))
