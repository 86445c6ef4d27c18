"""Settings come from the environment over a file, and a wrong or misspelt one stops the start."""

from __future__ import annotations

import os
import re
import runpy
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.server.settings.masks import masked
from duetime.server.settings.model import Settings
from duetime.server.settings.source import effective, load_settings
from duetime.server.settings.work import default_database_url
from pydantic import SecretStr, ValidationError

SECRET = "whsec_" + "Q" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the settings of whoever runs the tests out of them."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def config(home: Path, text: str) -> Path:
    path = home / "duetime.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path | None = None) -> str:
    with pytest.raises(InvalidSetting) as caught:
        load_settings(path)
    return str(caught.value)


def test_without_any_configuration_the_database_is_in_the_users_data_directory(home: Path) -> None:
    settings = load_settings()
    assert settings.sqlite_path is not None
    assert settings.sqlite_path.parts[-2:] == ("duetime", "duetime.db")
    assert settings.origin("database_url") == "default"


def test_the_data_directory_is_created_for_its_user_alone(home: Path) -> None:
    settings = load_settings()
    settings.create_data_directory()
    assert settings.sqlite_path is not None
    assert stat.S_IMODE(settings.sqlite_path.parent.stat().st_mode) == 0o700


def test_a_directory_that_somebody_named_is_never_made_up(home: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{home}/misspelt/duetime.db")
    with pytest.raises(InvalidSetting, match=r"misspelt does not exist"):
        settings.create_data_directory()
    assert not (home / "misspelt").exists()


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(home, "threads = 1\nport = 1001\nlog_level = 'error'\n")
    monkeypatch.setenv("DUETIME_THREADS", "2")
    monkeypatch.setenv("DUETIME_PORT", "1002")
    settings = load_settings(path, port=1003, host=None)
    assert (settings.threads, settings.port, settings.log_level) == (2, 1003, "error")
    origins = [settings.origin(name) for name in ("threads", "port", "log_level", "host")]
    assert origins == ["DUETIME_THREADS", "command line", f"file {path}", "default"]


def test_the_file_is_found_by_variable_and_in_the_users_configuration_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = home / "config" / "duetime"
    usual.mkdir(parents=True)
    (usual / "duetime.toml").write_text("threads = 3\n", encoding="utf-8")
    monkeypatch.setattr("duetime.server.settings.layers.user_config_path", lambda *_args, **_kwargs: usual)
    assert load_settings().threads == 3
    monkeypatch.setenv("DUETIME_CONFIG", str(config(home, "threads = 4\n")))
    assert load_settings().threads == 4


def test_a_named_file_that_is_missing_stops_the_start(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--config: there is no file" in refused(home / "none.toml")
    monkeypatch.setenv("DUETIME_CONFIG", str(home / "none.toml"))
    assert "DUETIME_CONFIG: there is no file" in refused()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("thread = 4", "thread in {path}: there is no such setting. Did you mean threads?"),
        ("xyz = 1", "`duetime config` lists all settings"),
        (
            "threads = 0",
            "threads (file {path}): '0' is not accepted: it must be greater than or equal to 1. Example: 16",
        ),
        ("threads =", "is not TOML"),
        ("sqlite_synchronous = 1", "'FULL', 'NORMAL' or 'OFF'"),
        ("timezone = 'Mars/Base'", "no time zone is called 'Mars/Base'. Accepted: IANA names, nearest: "),
        ("database_url = 'postgres://x/y'", "write postgresql:// instead of postgres://"),
        ("database_url = 'duetime.db'", "it must be an SQLAlchemy URL"),
        ("host = '0.0.0.0'", "set auth (DUETIME_AUTH) to keys or oauth"),
        ("deliver_to = ['teem']", "deliver_to names 'teem', which is not a channel; known channels: desktop, inbox"),
        ("[channels.crm]\nwebhook = 'https://x.example'", "a webhook needs a secret"),
        ("[channels.crm]\nwebhook = 'https://x.example'", 'hook", "secret": "whsec_<32 bytes in base64>"}}'),
        ("[channels.crm]", "give exactly one of apprise"),
        ("[channels.crm]\napprize = 'json://x'", "Did you mean apprise?"),
        ("[channels.crm]\nx = 1", "channels.crm.x in {path}: there is no such setting. Accepted: apprise, webhook, "),
        ("[channels.Crm]\napprise = 'json://x'", "channels.Crm"),
        ("[channels.crm]\nwebhook = 'x.example'\nsecret = 'a'", "channels.crm.webhook"),
        ("[channels.crm]\napprise = 'json://x'\noutcomes = ['failure']", "'succeeded', 'failed' or 'expired'"),
        ("[channels.crm]\napprise = 'json://x'\noutcomes = []", "channels.crm.outcomes"),
        ("desktop_outcomes = 'failure'", "'succeeded', 'failed' or 'expired'"),
        ("[external_actions.transcribe]", "external_actions.transcribe.description"),
        (
            "[external_actions.transcribe]\ndescription = 'x'\nlease = '1 s'",
            """it must be from 5 s to 1 hour. Example: {{"transcribe": {{"description": """,
        ),
        ("[external_actions.transcribe]\ndescription = 'x'\ntime_limit = 'long'", "as '10 min', or seconds"),
        ("[external_actions.transcribe]\ndescription = 'x'\ntime_limit = '2 days'", "from 1 s to 1 day"),
        ("[external_actions.transcribe]\ndescription = 'x'\nleas = 9", "Did you mean lease?"),
        (
            "[external_actions.transcribe]\ndescription = 'x'\nneeds = {gpu = 0}",
            "external_actions.transcribe.needs.gpu",
        ),
        ("[external_actions.Transcribe]\ndescription = 'x'", "external_actions.Transcribe"),
        ("[external_actions.t]\ndescription = 'x'\npayload = {type = 'list'}", "'list' is not valid under"),
        ("[external_actions.t]\ndescription = 'x'\npayload = {type = 'array'}", "every payload is an object"),
        (
            "[external_actions.t]\ndescription = 'x'\npayload = {properties = {a = {pattern = '(a+)+$'}}}",
            "has 'pattern', which is not supported. Accepted: a JSON Schema of at most 8,192 bytes",
        ),
        ("[[retention]]\nwhat = 'jobs'\nage = '9 days'", "retention.0.what"),
        ("[[retention]]\nwhat = 'tasks'\nage = '1 s'", "is not accepted: not between 1 day and 36,500 days"),
        ("[[retention]]\nwhat = 'tasks'\nage = 'old'", "is not accepted: no length of days or weeks, as '90 days'"),
        ("[[retention]]\nwhat = 'tasks'\nage = '1 hour'", "retention.0.age"),
        ("[[retention]]\nwhat = 'usage'\nage = '9 days'", "need the usage of 40 days"),
        ("[[retention]]\nwhat = 'events'\nage = '9 days'\nstates = ['failed']", "events have no states"),
        ("[[retention]]\nwhat = 'events'\nage = '9 days'\nunread = true", "events have no unread messages"),
        ("[[retention]]\nwhat = 'tasks'\nage = '9 days'\nstates = ['ready']", "not a state in which a run ends"),
        ("[[retention]]\nwhat = 'tasks'\nage = '9 days'\ntenent = 'a'", "Did you mean tenant?"),
    ],
)
def test_an_unknown_or_wrong_setting_in_the_file_is_named(home: Path, text: str, said: str) -> None:
    path = config(home, text)
    assert said.format(path=path) in refused(path)


def test_every_mistake_is_named_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREDS", "4")
    said = refused(config(home, "handler = ['a']\nthreads = 0\n[channels.crm]\napprize = 'json://x'"))
    assert sorted(line.split(" ")[0] for line in said.splitlines()) == [
        "DUETIME_THREDS", "channels.crm.apprize", "handler", "threads",
    ]  # fmt: skip


def test_an_unknown_variable_stops_the_start_and_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREDS", "4")
    said = refused()
    assert "DUETIME_THREDS in the environment: there is no such setting. " in said
    assert "Did you mean DUETIME_THREADS?" in said


def test_the_value_of_an_unknown_setting_is_not_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_OPENAI", "sk-hunter2")
    assert "sk-hunter2" not in refused()
    monkeypatch.delenv("DUETIME_OPENAI")
    file = home / "duetime.toml"
    file.write_text('signing = "sk-hunter2"\n[channels.team]\nbot = "sk-hunter2"\n', encoding="utf-8")
    monkeypatch.setenv("DUETIME_CONFIG", str(file))
    assert "sk-hunter2" not in refused()


@pytest.mark.parametrize("secrets", [SECRET, f"{SECRET} whsec_{'R' * 32}"])
def test_a_webhook_secret_can_be_rotated(monkeypatch: pytest.MonkeyPatch, secrets: str) -> None:
    monkeypatch.setenv("DUETIME_WEBHOOK_SECRET", secrets)
    found = load_settings().webhook_secret
    assert found is not None
    assert found.get_secret_value() == secrets


@pytest.mark.parametrize("name", ["password", "sslpassword", "ssl_keyfile_password", "secret", "Token"])
def test_secrets_in_the_query_of_an_address_are_masked(name: str) -> None:
    url = f"postgresql+psycopg://u@h/d?{name}=hunter2&sslmode=require"
    assert masked(url) == f"postgresql+psycopg://u@h/d?{name}=***&sslmode=require"


def test_every_wrong_variable_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREADS", "many")
    monkeypatch.setenv("DUETIME_PORT", "99999")
    assert [line.split(":")[0] for line in refused().splitlines()] == ["DUETIME_THREADS", "DUETIME_PORT"]


def test_an_empty_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREADS", "")
    monkeypatch.setenv("DUETIME_HOSTT", "")
    assert load_settings().threads == 16


def test_variables_of_the_test_suite_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_TEST_POSTGRES_URL", "postgresql://x")
    assert load_settings().threads == 16


def test_lists_are_separated_by_commas_and_channels_are_json_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUETIME_HANDLERS", " one, two.three ,one,")
    monkeypatch.setenv("DUETIME_CHANNELS", '{"team": {"apprise": "json://user:pw@x"}}')
    monkeypatch.setenv("DUETIME_DELIVER_TO", "team")
    settings = load_settings()
    assert settings.handlers == ("one", "two.three")
    assert settings.deliver_to == ("team",)
    assert settings.channels["team"].apprise == SecretStr("json://user:pw@x")


def test_external_actions_are_json_in_the_environment_with_lengths_in_words_or_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actions = (
        '{"transcribe": {"description": "Transcribes", "lease": 90, "time_limit": "2 hours", "needs": {"gpu": 1}}}'
    )
    monkeypatch.setenv("DUETIME_EXTERNAL_ACTIONS", actions)
    found = load_settings().external_actions["transcribe"]
    assert (found.lease, found.time_limit, found.needs) == (timedelta(seconds=90), timedelta(hours=2), {"gpu": 1})


def test_rules_of_retention_are_a_list_in_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_RETENTION", '[{"what": "tasks", "age": "2 weeks"}, {"what": "runs", "age": "forever"}]')
    assert [(str(rule.what), rule.age) for rule in load_settings().retention] == [
        ("tasks", timedelta(14)),
        ("runs", None),
    ]
    [shown] = [each.value for each in effective(load_settings()) if each.name == "retention"]
    assert shown == "tasks (14 days),runs (forever)"
    former = '[{"what": "events", "age": "9 days", "until": "2026-03-31"}]'
    monkeypatch.setenv("DUETIME_RETENTION", former)
    [shown] = [each.value for each in effective(load_settings()) if each.name == "retention"]
    assert shown == "events (9 days until 2026-03-31)"
    monkeypatch.setenv("DUETIME_RETENTION", "tasks")
    assert "Accepted: a list of retention" in refused()


def test_channels_that_are_no_json_are_refused_without_showing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_CHANNELS", "{'team': 'hunter2'}")
    said = refused()
    assert "DUETIME_CHANNELS: *** is not JSON" in said
    assert "hunter2" not in said


def test_a_wrong_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_WEBHOOK_SECRET", "hunter2")
    said = refused()
    assert "hunter2" not in said
    assert "openssl rand -base64 32" in said


def test_a_setting_that_cannot_be_changed_by_accident() -> None:
    settings = Settings(threads=2)
    with pytest.raises(ValidationError):
        settings.threads = 3  # type: ignore[misc]  # refused at run time too


def test_settings_of_a_program_are_over_the_environment_and_that_is_over_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_CONFIG", str(config(home, "threads = 1\nprocesses = 2\nport = 3\n")))
    monkeypatch.setenv("DUETIME_THREADS", "4")
    monkeypatch.setenv("DUETIME_PROCESSES", "5")

    settings = Settings(threads=6)

    assert (settings.threads, settings.processes, settings.port, settings.host) == (6, 5, 3, "127.0.0.1")
    origins = [settings.origin(name) for name in ("threads", "processes", "host")]
    assert origins == ["argument", "DUETIME_PROCESSES", "default"]
    assert settings.origin("port").startswith("file ")


def test_a_program_that_wants_nothing_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_THREADS", "4")

    assert Settings.model_validate({"port": 1}).threads == 16


def test_none_is_a_value_that_a_program_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")

    assert Settings(timezone=None).timezone is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threads": "many"}, "threads (argument): 'many' is not accepted"),
        ({"thraeds": 4}, "thraeds (argument): there is no such setting. Did you mean threads?"),
        ({"redis_url": "redis://localhost"}, "redis_url needs a PostgreSQL database"),
    ],
)
def test_a_wrong_argument_is_refused_as_a_wrong_setting_is(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Settings(**given)

    assert said in str(refused.value)


def test_effective_values_hide_every_secret(home: Path) -> None:
    path = config(
        home,
        f"database_url = 'postgresql://me:hunter2@db/x'\nwebhook_secret = '{SECRET}'\n"
        f"[channels.team]\napprise = 'tgram://hunter2/1'\n"
        f"[channels.crm]\nwebhook = 'https://x.example'\nsecret = '{SECRET}'\n",
    )
    shown = {each.name: each for each in effective(load_settings(path))}
    assert shown["database_url"].value == "postgresql://me:***@db/x"
    assert shown["webhook_secret"].value == "***"
    assert shown["channels"].value == "team (apprise), crm (webhook, secret)"
    assert list(shown) == list(Settings.model_fields)
    assert {"hunter2", SECRET}.isdisjoint(word for each in shown.values() for word in (each.value, each.origin))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (("a", "b"), "a,b"),
        (2.5, "2.5"),
        ({}, ""),
        (SecretStr("x"), "***"),
        (SecretStr(""), ""),
    ],
)
def test_a_value_is_shown_as_one_would_write_it(value: object, text: str) -> None:
    assert masked(value) == text


def test_the_default_database_is_an_absolute_path() -> None:
    path = Settings(database_url=default_database_url()).sqlite_path
    assert path is not None
    assert path.is_absolute()


@pytest.mark.parametrize("url", ["postgresql+psycopg://u@h/d", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_have_no_file(url: str) -> None:
    assert Settings(database_url=url).sqlite_path is None


def test_the_page_of_the_documentation_is_the_one_that_the_model_writes() -> None:
    root = Path(__file__).parents[4]
    page, script = root / "docs" / "configuration.md", root / ".ci" / "configuration_page.py"
    configuration_page = runpy.run_path(str(script))["configuration_page"]
    assert page.read_text(encoding="utf-8") == configuration_page(), f"python {script} {page}"


def test_the_page_says_which_values_a_setting_that_may_be_absent_accepts() -> None:
    page = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text("utf-8")
    accepted = dict(re.findall(r"### `(\w+)`\n.*?\n- accepted: ([^\n]*)", page, re.DOTALL))
    assert accepted["spread_seconds"] == "a whole number from 0 to 3600 seconds"
    assert accepted["metrics_port"] == "a whole number from 0 to 65535"
    assert accepted["tenant_daily_cost"] == "a decimal number from 0"
    assert accepted["public_url"] == "text"


def test_a_setting_of_a_kind_that_the_page_has_no_words_for_is_refused() -> None:
    script = Path(__file__).parents[4] / ".ci" / "configuration_page.py"
    with pytest.raises(TypeError, match="bytes"):
        runpy.run_path(str(script))["_kind"](bytes | None)


def test_the_index_of_the_page_leads_to_every_setting_once() -> None:
    page = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text("utf-8")
    index = page.partition("| for | settings |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"\]\(#(\w+)\)", index)) == sorted(Settings.model_fields)


def test_every_setting_is_described_with_an_example_that_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = {
        "webhook_secret",
        "secret_keys",
        "audit_keys",
        "deliver_to",
    }  # no secret is there to be copied, and a name needs its channel
    for name, field in Settings.model_fields.items():
        assert field.description
        if name not in unset:
            monkeypatch.setenv(f"DUETIME_{name.upper()}", str((field.examples or [""])[-1]))
    settings = load_settings()
    assert {name for name in Settings.model_fields if settings.origin(name) == "default"} == unset


def test_many_processes_over_redis_need_a_postgresql_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_REDIS_URL", "redis://localhost")
    assert "set database_url (DUETIME_DATABASE_URL) to postgresql+psycopg://user@host/name" in refused()
    monkeypatch.setenv("DUETIME_DATABASE_URL", "postgresql+psycopg://duetime@localhost/duetime")
    assert load_settings().distributed


@pytest.mark.parametrize("url", ["http://:se/cr@t@redis.example.com", "redis://", "localhost:6379?password=se/cr@t"])
def test_a_url_that_names_no_redis_is_refused_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_DATABASE_URL", "postgresql+psycopg://duetime@localhost/duetime")
    monkeypatch.setenv("DUETIME_REDIS_URL", url)
    said = refused()
    assert said.startswith("DUETIME_REDIS_URL: ")
    assert "it must be a URL that begins with redis://, rediss:// (TLS) or unix:///" in said
    assert "se/cr" not in said


@pytest.mark.parametrize("secret", ["plain", "with@at", "with/slash", "with:colon"])
def test_passwords_in_urls_are_masked(secret: str) -> None:
    assert masked(f"redis://me:{secret}@redis.example.com:6379/0") == "redis://me:***@redis.example.com:6379/0"
    assert (
        masked(f"redis://redis.example.com/0?password={secret}&db=1") == "redis://redis.example.com/0?password=***&db=1"
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [("QUIET_HOURS", "25:00-26:00"), ("POOLS", '{"gpu": {"kind": "slots", "capacity": -1}}')],
)
def test_a_refused_setting_has_one_example(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(f"DUETIME_{variable}", value)
    with pytest.raises(InvalidSetting) as refused:
        load_settings()
    assert str(refused.value).count("Example: ") == 1


def test_a_wrong_pool_is_shown_corrected_as_its_owner_wrote_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config(
        home, '[pools.gpu]\ncapacity = "three"\nprice = "2 per 5"\n[pools.cpu]\ncapacity = 2\n[pools]\n"a b" = 3'
    )
    said, example = refused(file).split("Example:\n")
    assert "pools.gpu.capacity: it is 'three'. Accepted: a whole number" in said
    assert "pools.a b: it is 3" in said
    assert example == '[pools.gpu]\ncapacity = 1\nprice = "2 per 5"\n[pools.a-b]\ncapacity = 3'
    monkeypatch.setenv("DUETIME_POOLS", '{"gpu": {"capacity": "three"}, "cpu": {"capacity": 2}, "a b": {}}')
    example = refused().partition(" Example: ")[2]
    assert example == '{"gpu": {"capacity": 1}, "a-b": {}, "cpu": {"capacity": 2}}'
    monkeypatch.setenv("DUETIME_POOLS", example)
    assert list(load_settings().pools) == ["gpu", "a-b", "cpu"]
