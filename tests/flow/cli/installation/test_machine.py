"""The verbs for the installation, and how every command ends: codes, one sentence on stderr, nothing else on stdout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duetime
import pytest
import time_machine
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.store import open_store
from duetime.scheduler.store.migrations import upgrade
from duetime.server.cli.main import run
from duetime.server.session import session

from tests.builders import Clock, started

Run = Callable[..., "Ended"]
SECRET = "whsec_" + "Q" * 32


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "America/Edmonton")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    return tmp_path


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def ended(*arguments: str) -> Ended:
        code = run(arguments)
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return ended


@pytest.fixture
def systemctl(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a service manager before the machine's own that only writes down what it is told."""
    log = home / "systemctl.log"
    program = home / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "linux")
    return log


def test_lines_to_copy_are_printed_without_a_service_manager(
    cli: Run, systemctl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.setup.background_service.unreachable", lambda _plan: "no manager answers")
    monkeypatch.setenv("container", "podman")
    ended = cli("service", "install")
    assert (ended.code, ended.err) == (1, "no manager answers; nothing was changed. What works here:\n")
    assert "  restart: unless-stopped" in ended.out.splitlines()


def test_the_version_is_said_either_way(cli: Run) -> None:
    assert cli("--version").out == f"duetime {duetime.__version__}\n"
    assert cli("--config", "", "--version").out == f"duetime {duetime.__version__}\n"


def test_asking_for_the_version_loads_neither_database_nor_protocol() -> None:
    program = (
        "import sys; from duetime.server.cli.main import run; run(['--version']);"
        "print(sorted({'sqlalchemy', 'mcp', 'dramatiq', 'pydantic', 'typer', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_showing_settings_loads_neither_database_nor_protocol(home: Path) -> None:
    program = (
        "import sys; from duetime.server.cli.main import run; code = run(['config', '--json']);"
        "print(code, sorted({'sqlalchemy', 'mcp', 'dramatiq'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    ("arguments", "said", "help_of"),
    [
        (("lisst",), "No such command 'lisst'. Did you mean 'list'?", "duetime"),
        (("service", "uninstall"), "No such command 'uninstall'. Did you mean 'remove'?", "duetime service"),
        (("delete",), "No such command 'delete'. Did you mean 'cancel'?", "duetime"),
        (("run", "t_1"), "No such command 'run'. Did you mean 'reschedule ID --when now'?", "duetime"),
        (("pause",), "No such command 'pause'. Did you mean 'reschedule ID --pause'?", "duetime"),
        (("schedule",), "Missing argument 'TITLE'.", "duetime schedule"),
        (("schedule", "x", "--whenn", "y"), "No such option: --whenn", "duetime schedule"),
        (("schedule", "x", "--needs"), "No such option: --needs (Possible options: --need)", "duetime schedule"),
        (("history", "--state", "done"), "Invalid value for '--state': 'done' is not one of", "duetime history"),
        (("list", "--limit", "many"), "Invalid value for '--limit'", "duetime list"),
        (("install", "emacs"), "Invalid value for 'CLIENT': 'emacs' is not one of 'claude'", "duetime install"),
        (("service",), "Missing command.", "duetime service"),
    ],
)
def test_wrong_usage_ends_with_2_and_names_the_help(
    cli: Run, arguments: tuple[str, ...], said: str, help_of: str
) -> None:
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"duetime: {said}")
    assert ended.err.endswith(f"\nTry: {help_of} --help\n")
    named = help_of in {"duetime", "duetime service"} or "Possible options" in ended.err
    assert (f"\nExample: {help_of} " in ended.err) is not named


@pytest.mark.parametrize("group", ["audit", "decisions", "keys", "policy", "retention", "secrets"])
def test_a_group_that_has_something_to_list_lists_it_without_a_verb(cli: Run, group: str) -> None:
    first = {"policy": "show", "retention": "status"}.get(group, "list")
    whole, alone = cli(group, first, "--json"), cli(group, "--json")
    assert (whole.code, alone.code, alone.out) == (0, 0, whole.out)
    assert cli(group).code == 0


def test_an_unexpected_error_is_one_sentence_without_a_traceback(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("the sky fell")

    monkeypatch.setattr("duetime.server.cli.installation.config_json", broken)
    ended = cli("config")
    assert ended.code == 1
    assert ended.err.startswith("duetime: RuntimeError: the sky fell. This is a defect of Duetime")
    assert ended.err.count("\n") == 1
    monkeypatch.setenv("DUETIME_LOG_LEVEL", "debug")
    assert "Traceback" in cli("config").err


def test_an_interrupt_ends_with_130(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("duetime.server.cli.installation.config_json", interrupted)
    assert cli("config").code == 130


def test_a_reader_that_leaves_early_gets_no_traceback(home: Path) -> None:
    command = f"{sys.executable} -m duetime config | {sys.executable} -c 'import os; os.close(0)'"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_wrong_setting_stops_every_verb_with_2(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREDS", "4")
    for verb in ("config", "list", "migrate", "serve"):
        ended = cli(verb)
        assert ended.code == 2
        assert ended.err.startswith("duetime: DUETIME_THREDS in the environment: there is no such setting.")


def test_config_says_where_each_value_is_from_and_hides_secrets(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "duetime.toml"
    file.write_text(f"webhook_secret = '{SECRET}'\n", encoding="utf-8")
    ended = cli("--config", str(file), "config")
    rows = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines()[2:]}
    assert rows["webhook_secret"] == ["***", "file", str(file)]
    assert rows["timezone"] == ["America/Edmonton", "DUETIME_TIMEZONE"]
    assert rows["threads"] == ["16", "default"]
    shown = json.loads(cli("--config", str(file), "config", "--json").out)
    assert (shown["schema"], shown["file"]) == ("duetime.config/1", str(file))
    assert {"name": "webhook_secret", "value": "***", "from": f"file {file}"} in shown["settings"]
    assert SECRET not in ended.out


def test_migrate_makes_and_upgrades_the_database(cli: Run, home: Path) -> None:
    first = cli("migrate")
    assert (first.code, first.out) == (0, f"Created the tables, schema {upgrade.HEAD_VERSION}.\n")
    assert (home / "duetime.db").is_file()
    again = cli("migrate")
    assert (again.code, again.out) == (0, f"Nothing to do: the database has schema {upgrade.HEAD_VERSION} already.\n")
    assert cli("list").code == 0


def test_migrate_says_where_the_database_as_it_was_is_kept(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = upgrade.Upgrade("0001", "0002", "/data/duetime.db.schema-0001")
    monkeypatch.setattr("duetime.scheduler.store.migrate_store", lambda *_: done)
    assert cli("migrate").out.splitlines() == [
        "The database as it was: /data/duetime.db.schema-0001",
        "Upgraded the database from schema 0001 to 0002.",
    ]


@pytest.mark.postgres
def test_a_shared_database_is_migrated_by_that_command_alone(
    cli: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", postgres_url)
    refused = cli("list")
    assert (refused.code, "Run `duetime migrate` first." in refused.err) == (1, True)
    doctor = cli("doctor")
    assert (doctor.code, doctor.out.count("duetime migrate")) == (1, 1)
    assert cli("migrate").code == 0
    assert cli("schedule", "Call John", "--when", "in 2 hours").code == 0
    assert "Call John" in cli("list").out


def test_install_prints_for_a_pipe_and_explains_on_stderr(cli: Run, home: Path) -> None:
    ended = cli("install", "cursor")
    server = json.loads(ended.out)["mcpServers"]["duetime"]
    assert Path(server["command"]).is_absolute()
    assert server["env"]["DUETIME_TIMEZONE"] == "America/Edmonton"
    assert str(home / ".cursor/mcp.json") in ended.err
    assert not (home / ".cursor").exists()


def test_install_writes_and_says_where_the_old_file_is(cli: Run, home: Path) -> None:
    first = cli("install", "cursor", "--write")
    assert f"Written to {home}/.cursor/mcp.json. Restart cursor to use it." in first.out
    assert "has it already" in cli("install", "cursor", "--write").out
    changed = cli("--handlers", "mine", "install", "cursor", "--write")
    backup = changed.out.splitlines()[-1].removeprefix("The file as it was: ")
    assert "--handlers" not in Path(backup).read_text(encoding="utf-8")


def test_install_and_uninstall_show_what_they_change_and_leave_the_file_as_it_was(cli: Run, home: Path) -> None:
    path = home / "settings.json"
    path.write_text('{\n  // mine\n  "context_servers": {},\n}\n', encoding="utf-8")
    at = ("zed", "--file", str(path))
    before, added = path.read_bytes(), cli("install", *at, "--write")
    assert '+    "duetime": {' in added.out.splitlines()
    after, tried = path.read_bytes(), cli("uninstall", *at, "--dry-run")
    assert ('-    "duetime": {' in tried.out.splitlines(), path.read_bytes() == after) == (True, True)
    removed = cli("uninstall", *at)
    assert (removed.code, path.read_bytes() == before) == (0, True)
    assert removed.out.startswith(tried.out)
    assert cli("uninstall", *at).out == f"{path} has no entry of Duetime.\n"


def test_install_refuses_with_4_what_it_cannot_merge(cli: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("// mine\n", encoding="utf-8")
    ended = cli("install", "cursor", "--write")
    assert (ended.code, "nothing was written" in ended.err) == (4, True)


def test_the_service_is_shown_installed_and_removed(cli: Run, home: Path, systemctl: Path) -> None:
    unit = home / ".config/systemd/user/duetime.service"
    shown = cli("service", "install", "--print")
    assert 'Environment="DUETIME_TIMEZONE=America/Edmonton"' in shown.out
    assert not unit.exists()
    assert not systemctl.exists()
    assert cli("service", "status").code == 1
    installed = cli("service", "install")
    assert (installed.code, "loginctl enable-linger" in installed.out) == (0, True)
    assert unit.read_text(encoding="utf-8") == shown.out
    status = cli("service", "status", "--json")
    assert (status.code, json.loads(status.out)["state"]) == (0, "running")
    assert "Tasks and settings stay." in cli("service", "remove").out
    assert not unit.exists()
    assert cli("service", "remove").out == "There was no service.\n"


def test_the_service_is_not_set_up_with_a_wrong_setting(
    cli: Run, systemctl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_PORT", "99999")
    assert cli("service", "install").code == 2
    assert not systemctl.exists()


def test_where_there_is_no_service_manager_it_says_what_to_do(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.setup.background_service.plan", lambda _invocation: None)
    ended = cli("service", "install")
    assert (ended.code, "nohup" in ended.out or "schtasks" in ended.out) == (1, True)
    assert ended.err.startswith("this machine has neither systemd nor launchd; nothing was changed. What works here:")
    assert cli("service", "install", "--print").out == ended.out
    assert cli("service", "status").code == 4


def test_where_the_manager_does_not_listen_to_this_user_it_says_what_to_do(
    cli: Run, home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "`systemctl --user show --property=Version` failed: Failed to connect to bus"
    monkeypatch.setattr("duetime.server.setup.background_service.unreachable", lambda _plan: said)
    ended = cli("service", "install")
    assert (ended.code, ended.err.startswith(f"{said}; nothing was changed")) == (1, True)
    assert "nohup" in ended.out
    assert not (home / ".config").exists()


def test_workers_are_drained_and_resumed_by_their_ids_or_all_at_once(
    home: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.cli.workers._shared", session)  # as if with PostgreSQL and Redis
    with closing(open_store(f"sqlite:///{home}/duetime.db")) as store:
        assert cli("workers", "drain", "--all").out.startswith("No worker process has reported lately")
        for name in ("a", "b"):
            store.workers.beat(WorkerProcess(name, "host", 1, threads=4, started_at=store.now()))
        assert cli("workers", "drain", "a", "--now", "--reason", "upgrade").out.startswith("Draining within 5 s: a.")
        assert re.search(r"\na .* draining .*\nb .* running ", cli("workers").out)
        assert [each.drain for each in store.workers.all()] == ["now", None]
        assert cli("workers", "drain", "--all").out.startswith("Draining within 5 s: a, b.")
        assert cli("workers", "resume", "a").out.startswith("Taking runs again within 5 s: a.")
        asked, already = cli("workers", "drain", "--all").out.splitlines()
        assert (asked.startswith("Draining within 5 s: a."), already) == (True, "Draining or drained already: b.")
        assert cli("workers", "drain", "--all").out == "Draining or drained already: a, b.\n"
        assert cli("workers", "resume", "a").out.startswith("Taking runs again within 5 s: a.")
        assert cli("workers", "resume", "a").out == "Taking runs already: a.\n"
        assert cli("workers", "drain", "b").out == "Draining or drained already: b.\n"
        assert [each.drain for each in store.workers.all()] == [None, "finish"]
        entries = store.audit.page("local", AuditFilter(), limit=9).entries
    assert [(each.kind.value, each.subject, each.reason) for each in entries][-1] == ("worker_drained", "a", "upgrade")
    assert len(entries) == 6, "what changed nothing is no act"
    assert all((each.via or "").startswith("cli") for each in entries)
    assert (cli("workers", "drain").code, cli("workers", "drain", "a", "--all").code) == (2, 2)
    assert cli("workers", "drain", "c").code == 3


def test_a_silent_worker_is_not_said_to_drain_at_once_or_to_take_runs_again(
    home: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.cli.workers._shared", session)  # as if with PostgreSQL and Redis
    with closing(open_store(f"sqlite:///{home}/duetime.db")) as store:
        store.workers.beat(WorkerProcess("dead", "host", 1, threads=4, started_at=store.now()))
        with time_machine.travel(store.now() + timedelta(minutes=1)):
            assert cli("workers", "drain", "dead").out.splitlines() == [
                "No worker process has reported lately, so there is none to drain.",
                "Silent, and drained once they report again: dead.",
            ]
            store.workers.beat(WorkerProcess("alive", "host", 2, threads=4, started_at=store.now()))
            assert cli("workers", "resume", "--all").out.splitlines() == [
                "Silent, and taking runs again once they report: dead.",
                "Taking runs already: alive.",
            ]


def test_workers_elsewhere_are_said_not_to_be_drained(home: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.cli.workers._shared", session)  # as if with PostgreSQL and Redis
    with closing(open_store(f"sqlite:///{home}/duetime.db")) as store:
        store.external_workers.asked("acme", "bot", ("transcribe",), client=None, everywhere=False)
        name = store.external_workers.all()[0].name
        assert cli("workers", "drain", "--all").out.splitlines() == [
            "No worker process has reported lately, so there is none to drain.",
            f"Workers elsewhere are not drained: {name}. Stop them, or revoke their keys.",
        ]


def test_without_redis_there_is_no_worker_to_drain(home: Path, cli: Run) -> None:
    assert "without Redis there are none, and one process runs the tasks: `duetime serve`" in cli("workers").out
    refused = cli("workers", "drain", "--all")
    assert (refused.code, "shared installations" in refused.err) == (4, True)


def test_a_worker_that_fell_silent_is_shown_with_what_it_really_has_in_hand_still(home: Path, cli: Run) -> None:
    clock = Clock(datetime.now(UTC) - timedelta(minutes=1))
    with closing(open_store(f"sqlite:///{home}/duetime.db", clock=clock)) as store:
        claim = started(store, clock())
        store.workers.beat(WorkerProcess(claim.worker, "host-a", 4711, threads=4, started_at=clock(), running=4))
        store.workers.beat(WorkerProcess("other", "host-b", 4712, threads=4, started_at=clock(), running=4))
        clock.forward(minutes=1)
        store.workers.beat(
            WorkerProcess("awake", "host-c", 4713, threads=4, started_at=clock(), running=3, lost_threads=2)
        )
    listed, every = cli("workers").out, cli("workers", "--all").out
    assert re.fullmatch(
        r"WORKER .*THREADS +LOST +WITHHELD .*\nawake .* 3 +4 +2 +- .*\n2 silent, --all shows them\n", listed
    )
    assert [line.split()[0] for line in every.splitlines()] == ["WORKER", "awake", "other", claim.worker]
    shown = json.loads(cli("workers", "--json").out)["workers"]
    assert {each["id"]: (each["state"], each["running"]) for each in shown} == {
        claim.worker: ("silent", 1),
        "other": ("silent", 0),
        "awake": ("running", 3),
    }
