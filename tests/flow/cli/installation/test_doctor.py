"""`duetime doctor` on machines that are well, and on those that are not."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest
import time_machine
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.errors import StoreUnwritable
from duetime.scheduler.foresight import lateness
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.retry import MIN_CHANNEL_FAILURES
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import SearchState, open_store
from duetime.scheduler.worker.machine_load import Machine
from duetime.server.app import build
from duetime.server.cli.exit_codes import REFUSED_CODE
from duetime.server.cli.main import run
from duetime.server.doctor import examine
from duetime.server.settings.source import load_settings
from standardwebhooks import Webhook

from tests.builders import Clock, added, cancelled, some
from tests.canary import CANARY, KEY, OTHER_KEY
from tests.contracts.store.failures.test_store_failing_channels import fire
from tests.flow.cli.environment import isolate
from tests.flow.waiting import eventually


@handler("resize")
def resize(_ctx: Context) -> Done:
    """Make thumbnails."""
    return Done("resized")


SECRET = "whsec_" + "Q" * 32
Doctor = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("DUETIME_TIMEZONE", "America/Edmonton")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    return tmp_path


@pytest.fixture
def doctor(home: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def examined(*options: str, config: Path | None = None) -> tuple[int, dict[str, dict[str, str]]]:
        capsys.readouterr()
        code = run([*(["--config", str(config)] if config else []), "doctor", "--json", *options])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return code, {check["name"]: check for check in checks}

    return examined


@contextmanager
def receiver(status: int) -> Iterator[tuple[str, list[tuple[dict[str, str], str]]]]:
    """Answer every request with `status`, and keep what came."""
    came: list[tuple[dict[str, str], str]] = []

    class Keeping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Keeping)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_new_machine_is_well_and_gets_hints(doctor: Doctor, home: Path) -> None:
    code, checks = doctor()
    assert code == 0
    assert checks["database"]["verdict"] == "note"
    assert checks["zone"]["said"].startswith("America/Edmonton, where it is ")
    assert checks["handlers"] == {"name": "handlers", "verdict": "ok", "said": "3 actions: reminder, watch, webhook"}
    assert not (home / "duetime.db").exists()


def test_a_process_that_runs_tasks_is_found(doctor: Doctor) -> None:
    with build(load_settings()) as app:
        assert doctor()[1]["runner"]["verdict"] == "note"
        app.start()
        task_id = app.scheduler.schedule("Something", when=timedelta(0)).record.task.id
        eventually(lambda: app.scheduler.get(task_id).record.run.state in TERMINAL, "the task to run")
        code, checks = doctor()
    assert code == 0
    assert checks["runner"]["said"].startswith(f"process {os.getpid()} has been running tasks since ")
    assert {checks[name]["verdict"] for name in ("database", "disk", "clock", "runner")} == {"ok"}


def test_an_action_that_the_process_that_runs_tasks_does_not_know_is_said_by_every_other_one(doctor: Doctor) -> None:
    with build(load_settings()) as runner, build(load_settings(), handlers=[resize]) as other:
        runner.start()
        task_id = other.scheduler.schedule("Thumbnails", action="resize").record.task.id
        eventually(lambda: runner.store.claims.ready(limit=9), "the run to be ready")
        said = "a worker with a handler for 'resize': no running worker has one"
        apps = (runner, other)
        eventually(lambda: all(app.scheduler.explain(task_id)[1][0].startswith(said) for app in apps), "the reason")
        actions = doctor()[1]["actions"]
    assert actions["verdict"] == "wrong"
    assert actions["said"] == "no worker knows the action 'resize', and runs of it wait."


def test_threads_that_start_nothing_under_load_are_noted(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "free_memory", lambda _: 1.0)
    monkeypatch.setattr(Machine, "load", lambda _: 1_000.0)
    with build(load_settings(threads=4, yield_to_load=True)) as app:
        app.start()
        eventually(lambda: (stats := app.remote_queue.stats()) is not None and stats.threads, "the threads")
        code, checks = doctor()
    assert (code, checks["load"]["verdict"]) == (0, "note")
    assert checks["load"]["said"] == "3 of 4 threads wait while the machine is short of memory or CPU."
    assert "yield_to_load" in checks["load"]["advice"]


def test_the_process_that_runs_tasks_makes_the_index_for_searches(doctor: Doctor) -> None:
    with build(load_settings()) as app:
        search = doctor()[1]["search"]
        assert (search["verdict"], "read every row" in search["said"]) == ("note", True)
        app.start()
        eventually(lambda: app.store.search.state() is SearchState.INDEXED, "there is an index")
        assert doctor()[1]["search"]["verdict"] == "ok"


def test_runs_that_wait_longer_than_their_patience_are_noted(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "REPORT_INTERVAL_S", 0.0)
    monkeypatch.setattr(lateness, "REPORT_PAUSE_RATIO", 0)
    with build(load_settings()) as app:
        app.scheduler.schedule("Call John", when="now", priority="high")
        app.store.claims.make_ready(limit=9)
        assert doctor()[1]["backlog"]["verdict"] == "ok"
        with time_machine.travel(datetime.now(UTC) + timedelta(minutes=1)):
            backlog = doctor()[1]["backlog"]
            assert app.ready() == "ok"  # until it stays late
            assert app.ready().startswith("ok, but high: 1 ready, the oldest for ")
    assert backlog["verdict"] == "note"
    assert "longer than its patience of 30 s" in backlog["said"]


def test_a_run_that_a_killed_process_left_ready_is_due_and_nobody_runs_it(doctor: Doctor) -> None:
    with build(load_settings()) as app:
        app.scheduler.schedule("Call John", when="now")
        app.store.claims.make_ready(limit=9)
    code, checks = doctor()
    assert (code, checks["runner"]["verdict"]) == (1, "wrong")
    assert "no process is running them" in checks["runner"]["said"]


def test_due_tasks_that_nobody_runs_are_wrong(doctor: Doctor) -> None:
    assert run(["schedule", "Call John", "--when", "in 10 min"]) == 0
    assert doctor()[0] == 0
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
        code, checks = doctor()
    assert (code, checks["runner"]["verdict"]) == (1, "wrong")
    assert "no process is running them" in checks["runner"]["said"]
    assert "duetime service install" in checks["runner"]["advice"]


def test_a_damaged_row_is_wrong(doctor: Doctor, home: Path) -> None:
    with build(load_settings()) as app:
        view = app.scheduler.schedule("Call John", when="now")
    assert re.fullmatch(r"\d+ rows read, none damaged", doctor()[1]["rows"]["said"])
    with closing(sqlite3.connect(home / "duetime.db")) as connection, connection:
        connection.execute("UPDATE tasks SET priority = 'urgent'")
    code, checks = doctor()
    assert (code, checks["rows"]["verdict"]) == (1, "wrong")
    assert (
        f"1 row of tasks: each cannot be read in priority: 'urgent' is unknown ({view.record.task.id})"
        in (checks["rows"]["said"])
    )
    assert "duetime cancel" in checks["rows"]["advice"]


def test_a_clock_that_went_back_is_wrong(doctor: Doctor) -> None:
    assert run(["schedule", "Call John", "--when", "in 10 min"]) == 0
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=1)):
        code, checks = doctor()
    assert (code, checks["clock"]["verdict"]) == (1, "wrong")
    assert "NTP" in checks["clock"]["advice"]


def test_a_wrong_setting_is_all_that_is_said(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREDS", "4")
    code, checks = doctor()
    assert (code, list(checks)) == (1, ["configuration"])
    assert "Did you mean DUETIME_THREADS?" in checks["configuration"]["said"]


def test_each_mistake_of_the_settings_has_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DUETIME_THREADS", "0")
    monkeypatch.setenv("DUETIME_HOSST", "x")
    assert run(["doctor"]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1].startswith("wrong configuration DUETIME_THREADS: '0' is not accepted: ")
    assert lines[2].startswith("DUETIME_HOSST in the environment: there is no such setting.")
    assert lines[3] == "Correct it, then run `duetime doctor` again."


def test_a_missing_driver_of_the_database_is_named_with_its_command(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", "postgresql://x@127.0.0.1:1/y")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    code, checks = doctor()
    assert (code, checks["database"]["verdict"]) == (1, "wrong")
    assert "pip install '.[postgres]'" in checks["database"]["said"]


def test_a_file_that_is_no_database_is_wrong(doctor: Doctor, home: Path) -> None:
    (home / "duetime.db").write_text("a letter to my bank\n" * 100, encoding="utf-8")
    code, checks = doctor()
    assert (code, checks["database"]["verdict"]) == (1, "wrong")
    assert "not an SQLite database" in checks["database"]["said"]


def test_a_directory_that_is_misspelt_is_wrong(doctor: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{home}/misspelt/duetime.db")
    code, checks = doctor()
    assert code == 1
    assert checks["database"]["said"] == f"the directory {home}/misspelt does not exist."
    assert "DUETIME_DATABASE_URL" in checks["database"]["advice"]


def test_a_place_that_cannot_be_written_is_wrong(doctor: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.doctor.examine.os.access", lambda path, _mode: Path(path) != home)
    code, checks = doctor()
    assert (code, checks["disk"]["said"]) == (1, f"{home} cannot be written.")


def test_a_full_disk_is_wrong(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.doctor.examine.LOW_DISK_BYTES", 2**63)
    code, checks = doctor()
    assert (code, checks["disk"]["verdict"]) == (1, "wrong")


def test_handlers_that_cannot_be_loaded_are_wrong(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_HANDLERS", "no_such_module")
    code, checks = doctor()
    assert (code, checks["handlers"]["verdict"]) == (1, "wrong")
    assert checks["handlers"]["said"].startswith("module no_such_module cannot be loaded (")
    assert checks["handlers"]["said"].endswith("or remove it from the setting.")
    assert checks["handlers"]["advice"].startswith("Modules are searched in: ")


def test_a_handler_module_that_breaks_is_repaired_not_searched(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_jobs.py").write_text("1 / 0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DUETIME_HANDLERS", "broken_jobs")
    checks = doctor()[1]
    said = (
        "module broken_jobs cannot be loaded (ZeroDivisionError: division by zero). Repair it, or remove it from the "
    )
    assert checks["handlers"] == {"name": "handlers", "verdict": "wrong", "said": f"{said}setting."}


def test_no_known_zone_is_wrong(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUETIME_TIMEZONE")
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: None)
    code, checks = doctor()
    assert (code, checks["zone"]["verdict"]) == (1, "wrong")


def channel(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    monkeypatch.setenv("DUETIME_CHANNELS", json.dumps({"team": values}))


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # imported by Apprise
def test_a_channel_that_cannot_be_opened_is_wrong_and_its_secret_is_not_shown(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel(monkeypatch, apprise="nosuch://hunter2")
    code, checks = doctor()
    assert (code, checks["channels"]["verdict"]) == (1, "wrong")
    assert "channels.team" in checks["channels"]["said"]
    assert "hunter2" not in json.dumps(checks)


def test_a_test_is_sent_to_every_channel_only_when_asked_for(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(204) as (url, came):
        channel(monkeypatch, webhook=url, secret=SECRET)
        assert doctor()[1]["webhook:team"]["verdict"] == "ok"
        assert came == []
        code, checks = doctor("--send-test")
    assert (code, checks["webhook:team"]["said"]) == (0, "accepted the test message; check that it arrived")
    headers, body = came[0]
    assert json.loads(body)["data"]["title"] == "Duetime test"
    Webhook(SECRET).verify(body, headers)


def test_a_channel_that_does_not_take_the_test_is_wrong(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(500) as (url, _):
        channel(monkeypatch, webhook=url, secret=SECRET)
        code, checks = doctor("--send-test")
    assert (code, checks["webhook:team"]["verdict"]) == (1, "wrong")
    assert "500" in checks["webhook:team"]["said"]


def test_a_channel_whose_secret_is_gone_is_wrong_and_names_it(
    doctor: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_SECRET_KEYS", KEY)
    monkeypatch.setenv("DUETIME_CONFIG", str(home / "duetime.toml"))
    (home / "duetime.toml").write_text(
        f"[channels.team]\nwebhook = 'https://example.com'\nsecret = '{SECRET}'\n"
        "headers = {Authorization = 'Bearer secret:team-token'}\n"
    )
    with build(load_settings()) as app:
        app.store.secrets.set("acme", "team-token", CANARY, by="ann")
    code, checks = doctor()
    assert (code, checks["webhook:team"]) == (
        1,
        {
            "name": "webhook:team",
            "verdict": "wrong",
            "said": "tenant local has no secret 'team-token', so every message to it fails.",
            "advice": "Set it: `duetime secrets set team-token`",
        },
    )
    assert run(["secrets", "remove", "team-token", "--tenant", "acme"]) == 0
    with build(load_settings()) as app:
        app.store.secrets.set("local", "team-token", CANARY, by="ann")
        [secret] = app.store.secrets.all("local")
        assert secret.last_used_at is None
    assert doctor()[1]["webhook:team"]["verdict"] == "ok"
    with build(load_settings()) as app:
        assert app.store.secrets.all("local") == [secret], "a look is no use of it"


def test_a_server_that_cannot_be_reached_is_named_with_the_cause(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", "postgresql+psycopg://mallory:hunter2@127.0.0.1:1/ledger")
    code, checks = doctor()
    assert (code, checks["database"]["verdict"]) == (1, "wrong")
    assert checks["database"]["said"].startswith("postgresql+psycopg://mallory:***@127.0.0.1:1/ledger: ")
    assert "refused" in checks["database"]["said"]
    assert "hunter2" not in json.dumps(checks)


def test_a_deep_look_reads_every_row_and_names_damage_with_its_remedy(doctor: Doctor, home: Path) -> None:
    assert run(["schedule", "Call John", "--when", "in 10 min"]) == 0
    code, checks = doctor("--deep")
    assert (code, checks["integrity"]["verdict"]) == (0, "ok")
    with closing(sqlite3.connect(home / "duetime.db")) as database, database:
        database.execute("UPDATE events SET run_id = 'r_gone'")
    assert "integrity of events" not in doctor()[1]
    code, checks = doctor("--deep")
    found = checks["integrity of events"]
    assert (code, found["verdict"]) == (1, "wrong")
    assert found["said"] == "1 row: each names a run that does not exist (1)."
    assert found["advice"].startswith("Restore what is missing from a backup")


def test_for_people_it_is_a_table(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CHECK", "FOUND"]
    assert {line.split()[0] for line in some(lines[1:])} <= {"ok", "note"}


def test_secrets_that_no_key_decrypts_are_wrong_and_named(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_SECRET_KEYS", KEY)
    with build(load_settings()) as app:
        app.store.secrets.set("acme", "crm", CANARY, by="ann")
    assert doctor()[1]["secrets"]["said"] == "1 secret, each can be decrypted"
    monkeypatch.setenv("DUETIME_SECRET_KEYS", OTHER_KEY)
    code, checks = doctor()
    assert (code, checks["secrets"]["verdict"]) == (1, "wrong")
    assert checks["secrets"]["said"] == "no key decrypts crm of acme: runs that need it fail."


def test_a_runner_without_the_first_key_and_secrets_of_an_older_one_are_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_SECRET_KEYS", KEY)
    with build(load_settings()) as app:
        app.store.secrets.set("acme", "crm", CANARY, by="ann")
        app.start()
        eventually(lambda: doctor()[1]["runner"]["verdict"] == "ok", "the runner")
        monkeypatch.setenv("DUETIME_SECRET_KEYS", f"{OTHER_KEY}, {KEY}")
        code, checks = doctor()
        assert (code, checks["secrets"]["verdict"]) == (1, "wrong")
        assert checks["secrets"]["said"].endswith(f"their runs could read no secret: process {os.getpid()}.")
        assert run(["secrets", "rotate"]) == REFUSED_CODE
        app.store.secrets.set("acme", "crm", CANARY, by="ann")  # by the process that lacks the new key
    checks = doctor()[1]
    assert (checks["secrets"]["verdict"], checks["secrets"]["said"]) == (
        "note",
        "an older key encrypts crm of acme: keep it.",
    )
    assert run(["secrets", "rotate"]) == 0
    assert doctor()[1]["secrets"]["verdict"] == "ok"


def test_a_check_that_a_full_disk_fails_does_not_blame_the_address_of_the_database(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(load_settings()).close()

    def refuse(_store: object) -> NoReturn:
        raise StoreUnwritable("The disk is full. Nothing was stored; free some space and try again.")

    monkeypatch.setattr(examine, "_clock", refuse)
    code, checks = doctor()
    said = "The disk is full. Nothing was stored; free some space and try again."
    assert (code, checks["clock"]) == (1, {"name": "clock", "verdict": "wrong", "said": said})


def test_a_copy_of_a_database_is_not_run_by_the_process_of_the_original(
    doctor: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with build(load_settings()) as app:
        app.start()
        eventually(lambda: doctor()[1]["runner"]["verdict"] == "ok", "the runner")
        assert run(["backup", str(home / "copy.db")]) == 0
        monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{home / 'copy.db'}")
        assert doctor()[1]["runner"]["said"] == "no process is running tasks."


def test_a_channel_that_is_not_known_is_refused_with_those_that_are(doctor: Doctor, home: Path) -> None:
    (home / "duetime.toml").write_text(f'[channels.slack]\nwebhook = "http://127.0.0.1:9/"\nsecret = "{SECRET}"\n')
    with build(load_settings(home / "duetime.toml")) as app:
        fire(app.store, "Backup", "crm")
        due = [delivery for delivery, _ in app.store.deliveries.due(limit=9)]
        assert app.store.deliveries.settle_failed([each.id for each in due], 0, "HTTP 410", next_at=None)
    code, checks = doctor("--send-again", "slcak", config=home / "duetime.toml")
    assert (code, checks["deliveries"]) == (
        1,
        {
            "name": "deliveries",
            "verdict": "wrong",
            "said": "there is no channel 'slcak', so nothing is sent again.",
            "advice": "Accepted: crm, desktop, slack. Example: `duetime doctor --send-again crm`",
        },
    )
    with build(load_settings()) as app:
        assert app.store.audit.page("local", AuditFilter(), limit=9).entries == ()
        assert app.store.deliveries.failing()
    again = doctor("--send-again", "slack", config=home / "duetime.toml")[1]["deliveries"]
    assert again["said"].startswith("0 that were given up for slack will be sent again. crm: 1 given up")


def test_a_channel_that_fails_is_named_with_its_next_try(doctor: Doctor) -> None:
    with build(load_settings()) as app:
        fire(app.store, "Backup", "crm")
        [(found, _)] = app.store.deliveries.due(limit=9)
        again = datetime(2031, 5, 1, 9, 30, tzinfo=UTC)
        for attempts in range(MIN_CHANNEL_FAILURES):
            app.store.deliveries.settle_failed([found.id], attempts, "HTTP 503", next_at=again)
    code, checks = doctor()
    assert (code, checks["deliveries"]["verdict"]) == (1, "wrong")
    assert checks["deliveries"]["said"] == "crm: 1 failed, and the next try is at 2031-05-01 09:30 UTC (HTTP 503)."


def test_deliveries_that_were_given_up_are_named_and_sent_again(doctor: Doctor) -> None:
    with build(load_settings()) as app:
        fire(app.store, "Backup", "crm")
        due = [delivery for delivery, _ in app.store.deliveries.due(limit=9)]
        assert app.store.deliveries.settle_failed([each.id for each in due], 0, "HTTP 410", next_at=None)
    code, checks = doctor()
    assert (code, checks["deliveries"]) == (
        0,
        {
            "name": "deliveries",
            "verdict": "note",
            "said": "crm: 1 given up (HTTP 410).",
            "advice": "`duetime doctor --send-test` tests each channel. Once it works, send again what was given up: "
            "`duetime doctor --send-again crm`",
        },
    )
    sent = doctor("--send-again", "crm")[1]["deliveries"]
    assert sent["said"] == "1 that was given up for crm will be sent again."
    with build(load_settings()) as app:
        [entry] = app.store.audit.page("local", AuditFilter(), limit=9).entries
    assert (entry.kind, entry.subject, entry.detail) == ("deliveries_sent_again", "crm", {"deliveries": 1})
    assert doctor()[1]["deliveries"]["verdict"] == "ok"


def test_a_reason_for_nothing_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--reason", "it is back"]) == 2
    assert "only with --send-again" in capsys.readouterr().err


def test_retention_that_stops_is_wrong_until_it_goes_on(
    doctor: Doctor, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, clock = home / "duetime.toml", Clock()
    rule = '[[retention]]\nwhat = "tasks"\nage = "30 days"\n'
    config.write_text(f'archive_directory = "{home}/archive"\n{rule}')
    clock.forward(days=-4000)
    with closing(open_store(f"sqlite:///{home}/duetime.db", clock=clock)) as store:
        long_ago = clock.at - timedelta(days=1)
        cancelled(store, added(store, clock.at, created_at=long_ago, updated_at=long_ago))
    assert doctor()[1]["retention"]["said"] == "there is no rule, so everything is kept"
    unswept = doctor(config=config)[1]["retention"]
    assert unswept["verdict"] == "note"
    assert unswept["said"] == "1 kind of rows has a rule; no sweep has ended yet of tasks."
    assert run(["--config", str(config), "retention", "run"]) == 1
    code, checks = doctor(config=config)
    assert (code, checks["retention"]["verdict"]) == (1, "wrong")
    assert "retention of tasks stopped" in checks["retention"]["said"]
    assert "archive" in checks["retention"]["said"]
    (home / "archive").mkdir()
    assert run(["--config", str(config), "retention", "run"]) == 0
    assert doctor(config=config)[1]["retention"]["verdict"] == "ok"
