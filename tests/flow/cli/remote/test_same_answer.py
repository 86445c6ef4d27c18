"""A verb writes the same, whoever serves it: the database of this machine, or a server that has opened the same one."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from duetime.scheduler import ids
from duetime.scheduler.history.retention import RetentionKind, RetentionRule, ScopedRule
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.policies.decision import Contender, Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.tables.pools import workers
from duetime.scheduler.task import InboxMessage, State
from duetime.server.auth.issued_keys import new_key, validity_of
from duetime.server.cli.main import run
from duetime.server.cli.remote import tasks
from duetime.server.cli.remote.verbs import REMOTE_VERBS
from duetime.server.cli.verbs import duetime_command
from sqlalchemy import update

from tests import forked
from tests.builders import NOON, Clock, added, cancelled, log_chunk, settlement, started
from tests.flow.protocol.serve_process import ServerLog

REASON: Final = "502 Bad Gateway"
DEAD_LETTERS_COUNT: Final = 40
SECRETS_KEY: Final = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
SETTINGS: Final = """\
timezone = "UTC"
desktop_notifications = "off"
auth = "keys"
public_url = "https://duetime.example.com"
port = 0
decisions_per_minute = 0
yield_to_load = false

[[retention]]
what = "deliveries"
age = "900 days"

[pools.tokens]
kind = "budget"
capacity = 1000
price = "3.00 per 1_000_000"
"""
OF_MACHINE: Final = frozenset({"doctor", "config", "top"})
"""Verbs whose text is of one process or one moment: of these, the payload alone is compared."""

CASES: Final[Mapping[str, tuple[str, ...]]] = {
    "schedule": (
        "schedule Pay --when 'in 20 days' --label crm --priority high --deadline 'in 21 days'",
        "schedule Water --repeat 'every day at 9:00' --dry-run",
        "schedule Ship --wait-for packed",
        "schedule Load --after {fresh} --valid-output '[]'",
    ),
    "list": (
        *("list", "list --limit 2", "list --state failed", "list --state paused"),
        *("list --before 'in 9 days'", "list --query nobody"),
    ),
    "failed": ("failed", "failed --since 'last monday'", "failed --query nobody"),
    "show": ("show {chain}", "show {daily} --history", "show {failed}", "show {failed} --history"),
    "reschedule": (
        "reschedule {fresh} --title 'Call Jane' --when 'in 25 days'",
        "reschedule {fresh} --pause",
        "reschedule {fresh} --title 'Call John'",
        "reschedule {fresh} --title Other --dry-run",
        "reschedule {fresh} --wait-for packed",
        "reschedule {fresh} --remove on-failure --title Call",
    ),
    "cancel": (
        "cancel {fresh} --reason 'he called'",
        "cancel {beginning}",
    ),
    "undo": ("undo {gone}", "undo {fresh} u_1"),
    "approve": ("approve {asks} --reason fine",),
    "reject": ("reject {asks} --reason 'too much'",),
    "bulk": (
        "bulk pause --about Standing",
        "bulk pause --query Standing --tier normal",
        "bulk pause --about nobody",
    ),
    "event send": ("""event send paid --data '{{"order": 7}}'""",),
    "event address": ("event address {fresh}", "event address {called}", "event address {fresh} --revoke"),
    "explain": ("explain {daily}", "explain {asks}"),
    "history": (
        "history",
        "history --limit 2",
        "history {failed}",
        "history {chain}",
        "history {step}",
        "history {daily} --limit 1",
        "history --tenant '*' --limit 2",
        "history --count-by kind",
        "history --bucket day",
        "history --text nobody",
        "history --title nobody --max-duration '90 days' --min-delay '0 s'",
    ),
    "runs": (
        "runs",
        "runs --limit 1",
        "runs --title e --error gateway",
        "runs --state open,ended --oldest-first --limit 2",
        "runs --until 'in 90 days' --tenant '*'",
        "runs --count-by state",
        "runs --bucket day",
        "runs --text nobody",
    ),
    "cost": ("cost", "cost --by task", "cost --since tomorrow --until 'in 3 days'"),
    "report": ("report --tenant local",),
    "logs": ("logs {failed}", "logs {run} --tail 1"),
    "stats": ("stats",),
    "workers list": ("workers list", "workers list --all", "workers list --here"),
    "workers drain": ("workers drain --all --reason update",),
    "workers resume": ("workers resume --all",),
    "decisions list": ("decisions list", "decisions list --limit 1"),
    "decisions show": ("decisions show {decision}",),
    "inbox list": ("inbox list", "inbox list --limit 1"),
    "inbox read": ("inbox read {told}", "inbox read m_"),
    "inbox done": ("inbox done {told}", "inbox done {message}", "inbox done m_nothing"),
    "quiet-hours show": ("quiet-hours show",),
    "quiet-hours set": ("quiet-hours set '22:00-07:00 America/Denver'",),
    "quiet-hours clear": ("quiet-hours clear",),
    "dead list": ("dead list", "dead list --limit 1", "dead list --text nobody"),
    "dead show": ("dead show {letter}",),
    "dead replay": ("dead replay --label crm --dry-run", "dead replay {letter}"),  # its run fails again later
    "dead discard": ("dead discard {letter} --reason 'by hand'",),
    "dead undo": ("dead undo {token}",),
    "pools list": ("pools list",),
    "pools set": ("""pools set gpu '{{"capacity": 2}}'""",),
    "pools remove": ("pools remove {pool}",),
    "keys list": ("keys list", "keys list --tenant nobody"),
    "keys create": ("keys create laptop --scope tasks",),
    "keys revoke": ("keys revoke {key}",),
    "keys rotate": ("keys rotate {key}",),
    "secrets set": ("secrets set crm --host api.stripe.com",),
    "secrets list": ("secrets list", "secrets list --tenant nobody"),
    "secrets remove": ("secrets remove {secret}",),
    "secrets rotate": ("secrets rotate",),
    "audit list": ("audit list", "audit list --limit 1", "audit list --who nobody"),
    "audit head": ("audit head --tenant local", "audit head --tenant nobody"),
    "audit verify": ("audit verify --tenant local", "audit verify --tenant nobody"),
    "policy show": ("policy show",),
    "policy set": ("policy set shares.low=0.12 --dry-run",),
    "policy history": ("policy history",),
    "policy shadow": ("policy shadow shares.low=0.12", "policy shadow", "policy shadow {off}"),
    "policy rollback": ("policy rollback 0 --dry-run",),
    "retention status": ("retention status",),
    "retention run": ("retention run --dry-run",),
    "alerts": ("alerts",),
    "top": ("top --once",),
    "import": ("import {archive}",),
    "doctor": ("doctor",),
    "config": ("config",),
}
"""Command lines of each verb; names in braces are what a side has for itself where a verb changes something."""

_VOLATILE: Final = {
    "ID": r"\b(?:[a-z]{1,2}_[0-9a-z_]{4,}|[0-9a-z]{12}|[0-9a-f]{64})\b",
    "CURSOR": r"(?<=--cursor )\S+",
    "TIME": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
    r"|(?:\w{3} )?\d{1,2} \w{3} \d{4} \d\d:\d\d(?::\d\d)?",
    "SPAN": r"(?:in )?\d+(?:\.\d+)? (?:s|min|h|hours?|d|days?|weeks?)(?: \d+ (?:s|min|h))*(?: ago)?\b|\bnow\b",
    "COUNT": r"\d+(?= unread| rows compared)|(?<=\()[\d,]+(?= a second)|[\d./ ]+(?=became ready|started, |ended$)",
}
"""Words for what differs from one moment, or one task, to the next."""

Answer = tuple[int, str]


@dataclass
class Place:
    """A database that a server and this machine have open, and what is in it for verbs that change something."""

    folder: Path
    address: str = ""
    key: str = ""
    known: dict[str, str] = field(default_factory=dict)
    letters: list[str] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/duetime.db"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run a server on a database that has some of everything."""
    place = Place(tmp_path_factory.mktemp("place"))
    (place.folder / "duetime.toml").write_text(SETTINGS)
    store = open_store(place.url, migrate=True)
    _fill(store, place)
    text, key = new_key(LOCAL, "test", store.now(), validity_of("1 day"))
    store.api_keys.add(replace(key, scopes=("tasks", "admin")))
    store.close()
    place.key = text.text
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DUETIME_")}
    command = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(command, stderr=subprocess.PIPE, text=True, env=kept | _settings(place)) as process:
        log = ServerLog(process.stderr)
        place.address = log.address.removesuffix("/mcp")
        try:
            yield place
        finally:
            process.terminate()
            log.rest()


def _settings(place: Place) -> dict[str, str]:
    named = {"DATABASE_URL": place.url, "CONFIG": f"{place.folder}/duetime.toml", "SECRET_KEYS": SECRETS_KEY}
    return {f"DUETIME_{name}": value for name, value in named.items()}


def _fill(store: Store, place: Place) -> None:
    """Store failed runs with dead letters, logs, costs and messages, decisions, a worker."""
    now, failed = store.now(), [_fails(store, place) for _ in range(DEAD_LETTERS_COUNT)][-1]
    task, run = failed.task, failed.run
    contender = Contender(run.id, now.timestamp() * 1000, LOCAL.tenant)
    look = Look(contender.key, 0, 1, (0.0,) * 5, (2.0,) * 5, (None, contender, None, None, None), 2, contender)
    for name in ("d_1", "d_2"):
        store.decisions.add([Decision(name, now, LOCAL.tenant, task.id, run.id, "w1", look)])
    store.workers.beat(WorkerProcess("w1", "elsewhere", 7, 4, now - timedelta(minutes=5)))
    seen_at = now + timedelta(hours=1)  # it lives as long as these tests, however long a machine takes for them
    store._database.write(lambda connection: connection.execute(update(workers).values(seen_at=seen_at)))
    place.known |= {"failed": task.id, "run": run.id, "decision": "d_1"}


def _fails(store: Store, place: Place) -> Claim:
    """Let a run fail for good, with all that is kept of one."""
    claim = started(store, store.now(), tenant=LOCAL.tenant, owner=LOCAL.user, title="Push", labels=("crm", "eu"))
    task, run = claim.task, claim.run
    told = (task.tenant, task.owner, task.id, run.id, task.title, REASON, State.FAILED, store.now())
    message = InboxMessage(ids.new_id("m"), *told)
    ended = settlement(claim, State.FAILED, reason=REASON, error=REASON, failures=1, dead_letter=True, inbox=message)
    spent = replace(ended, used={"tokens": 900.0}, costs={"tokens": 2_700}, traceback="Traceback: ...\nOSError")
    store.claims.settle([replace(spent, log=(log_chunk(claim, 1, "begun", "done", last=True),))])
    place.letters.append(run.id)
    place.told.append((task.id, message.id))
    return claim


@dataclass
class Side:
    """One of the two ways to run a verb."""

    place: Place
    remote: bool
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    folder: Path
    made: dict[str, str] = field(default_factory=dict)

    def answer(self, *words: str) -> Answer:
        """Run a command line; return its exit code and what it writes to stdout."""
        for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
            self.monkeypatch.delenv(name)
        there = {"DUETIME_SERVER": self.place.address, "DUETIME_KEY": self.place.key} if self.remote else {}
        for name, value in (_settings(self.place) | there).items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setattr(sys, "stdin", io.StringIO("sk-live-1\n"))
        self.capsys.readouterr()
        code = run(words)
        written = self.capsys.readouterr()
        return code, written.out or written.err

    def line(self, text: str) -> list[str]:
        """Return the words of a command line, with what the side has for the names in it."""
        return shlex.split(text.format_map(self))

    def __getitem__(self, name: str) -> str:
        if name not in self.place.known and name not in self.made:
            self.made[name] = getattr(self, f"_{name}")()
        return self.made.get(name) or self.place.known[name]

    def _locally(self, *words: str) -> Any:
        code, said = replace(self, remote=False).answer(*words)
        assert code == 0, said
        return json.loads(said)

    def _scheduled(self, title: str, *options: str) -> str:
        return str(self._locally("schedule", title, *options, "--json")["id"])

    def _fresh(self) -> str:
        return self._scheduled("Call John", "--when", "in 20 days", "--label", "crm")

    def _called(self) -> str:
        title = f"Ship {ids.new_id('x')}"
        self._scheduled(title, "--when", "in 20 days")
        return f"'{title}'"

    def _beginning(self) -> str:
        return self._fresh()[:-2]

    def _asks(self) -> str:
        return self._scheduled("Pay the rent", "--when", "in 20 days", "--approval", "Pay 900?")

    def _gone(self) -> str:
        task_id = self._fresh()
        self._locally("cancel", task_id, "--json")
        return task_id

    def _letter(self) -> str:
        return self.place.letters.pop()

    def _told(self) -> str:
        return self.place.told.pop()[0]

    def _message(self) -> str:
        return self.place.told.pop()[1][:-2]

    def _token(self) -> str:
        return str(self._locally("dead", "discard", self._letter(), "--reason", "by hand", "--json")["undo"])

    def _key(self) -> str:
        return str(self._locally("keys", "create", "laptop", "--json")["id"])

    def _pool(self) -> str:
        replace(self, remote=False).answer("pools", "set", "old", '{"capacity": 2}')
        return "old"

    def _secret(self) -> str:
        replace(self, remote=False).answer("secrets", "set", "old")
        return "old"

    def _off(self) -> str:
        self._locally("policy", "shadow", "shares.low=0.12", "--json")
        return "--off"

    def _archive(self) -> str:
        self.folder.mkdir(exist_ok=True)
        return str(_archived(self.folder / str(len(list(self.folder.iterdir())))))


def _known(local: Side) -> None:
    """Schedule what verbs show: a series, and a chain with its first step."""
    if "chain" in local.place.known:
        return
    steps = local.place.folder / "steps.json"
    steps.write_text('[{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]')
    chain = local._locally("schedule", "Report", "--when", "in 8 days", "--steps", str(steps), "--json")["chain"]
    daily = local._scheduled("Standing", "--repeat", "every day at 9:00", "--label", "home", "--estimate", "5 min")
    local._locally("reschedule", daily, "--pause-until", "in 12 days", "--json")
    local._locally("keys", "create", "desk", "--json")
    local._locally("policy", "set", "shares.low=0.13", "--json")
    local.answer("secrets", "set", "stripe-key", "--host", "api.stripe.com")
    local.answer("pools", "set", "night", '{"kind": "calendar", "capacity": 1, "hours": {"mon-fri": 2}, "zone": "UTC"}')
    local.place.known |= {"chain": chain["id"], "step": chain["steps"][0]["id"], "daily": daily}


@pytest.fixture
def sides(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> tuple[Side, Side]:
    """Return the verb on this machine's database, and the verb on the server."""
    local, remote = (Side(place, there, monkeypatch, capsys, tmp_path / str(there)) for there in (False, True))
    _known(local)
    return local, remote


def _archived(folder: Path) -> Path:
    """Write a file of rows that retention deleted elsewhere."""
    folder.mkdir()
    store = open_store(f"sqlite:///{folder}/old.db", migrate=True, clock=Clock())
    cancelled(store, added(store, NOON, title="Long gone"))
    rule = ScopedRule(RetentionRule(RetentionKind.TASKS, timedelta(0)), timedelta(0))
    [rows] = store.retention.pages(rule, NOON + timedelta(days=1))
    store.retention.archive(RetentionKind.TASKS, rows, folder)
    store.close()
    [file] = folder.rglob("*.jsonl.gz")
    return file


def _options(verb: str) -> set[str]:
    command: Any = duetime_command()
    for name in verb.split():
        command = command.commands[name]
    return {each.name for each in command.loaded.params}


def _plain(text: str) -> str:
    """Leave out ids and times, and with them the width of columns."""
    for word, pattern in _VOLATILE.items():
        text = re.sub(pattern, word, text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def _shape(value: Any) -> Any:
    """Return the keys of a value of JSON, at any depth."""
    if isinstance(value, Mapping):
        return {re.sub(_VOLATILE["ID"], "ID", name): _shape(each) for name, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else None


def test_each_verb_that_works_on_a_server_is_compared() -> None:
    assert set(CASES) == set(REMOTE_VERBS)


@pytest.mark.parametrize(
    ("verb", "line"), [(verb, line) for verb, lines in CASES.items() for line in lines], ids=lambda value: value
)
def test_a_verb_writes_the_same_whoever_serves_it(verb: str, line: str, sides: tuple[Side, Side]) -> None:
    options = _options(verb)
    ways = [(), ("--csv",)] if "as_csv" in options else [()]
    for way in [] if verb in OF_MACHINE else ways:
        (code, here), (code_there, there) = (side.answer(*side.line(line), *way) for side in sides)
        assert (code, _plain(here)) == (code_there, _plain(there)), way
        for side in sides:
            side.made.clear()
    if "as_json" in options:
        (code, here), (code_there, there) = (side.answer(*side.line(line), "--json") for side in sides)
        assert (code, _keys(here)) == (code_there, _keys(there))
        assert code or _keys(here)


_IN_HEADERS: Final = frozenset({"key", "revision", "task_id", "as_json"})
"""Parameters of a verb that are no members of the body of its request."""

_OBJECTS: Final = dict.fromkeys(("payload", "expect", "on_failure", "origin", "valid_output"), '{"a": 1}')
_LISTS: Final = {"retry": "3", "needs": "gpu=1", "repeat_policy": "overlap=skip", "approval": "Pay?", "label": "crm"}


@pytest.mark.parametrize("verb", ["schedule", "reschedule"])
def test_each_option_of_a_task_is_sent_to_the_server(verb: str, tmp_path: Path) -> None:
    steps = tmp_path / "steps.json"
    steps.write_text('[{"name": "fetch"}]')
    given = {**_OBJECTS, **{name: [text] for name, text in _LISTS.items()}, "steps": [steps], "remove": ["needs"]}
    options = _options(verb) - _IN_HEADERS
    none = dict.fromkeys(options)
    sent = {name: tasks._body({**none, name: given.get(name, "tomorrow")}) for name in options}
    assert {name for name, body in sent.items() if body == tasks._body(none)} == set()


def _keys(said: str) -> list[Any]:
    """Return the keys of what a verb wrote as JSON, on one line or on several; a refusal has none."""
    return [_shape(json.loads(each)) for each in said.splitlines() if each.startswith("{")]
