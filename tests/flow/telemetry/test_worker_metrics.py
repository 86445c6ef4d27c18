"""`/metrics` of a worker: on a port of its own, with the checks that a server makes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.server.app import build
from duetime.server.settings.model import Settings
from duetime.server.workers.metrics_endpoint import answering_metrics
from duetime.server.workers.supervisor import ChildProcess
from pydantic import ValidationError

from tests.flow.auth.conftest import Site, bearer
from tests.flow.test_app import settings


def answered(address: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    with httpx2.Client(trust_env=False) as client:
        return client.get(address, headers=headers)


def test_a_worker_answers_at_its_own_port_as_long_as_it_runs(tmp_path: Path) -> None:
    with build(settings(tmp_path)) as app:
        with answering_metrics(app, 0) as address:
            text = answered(address).text
            foreign = answered(address, {"Host": "evil.example.com"})
        with pytest.raises(httpx2.TransportError):
            answered(address)
    assert 'duetime_build_info{role="work"' in text.replace('version="0.1.0",', "")
    assert foreign.status_code == 421


def test_a_worker_asks_for_the_key_of_an_operator_where_the_installation_has_keys(tmp_path: Path) -> None:
    with (
        build(settings(tmp_path, auth="keys")) as app,
        answering_metrics(app, 0) as address,
        httpx2.Client(trust_env=False) as client,
    ):
        site = Site(app, client)  # type: ignore[arg-type]  # only its keys are used
        keys = [site.key("local", scopes=["admin:read"]), site.key("acme", scopes=["admin"])]
        codes = [client.get(address, headers=headers).status_code for headers in ({}, *map(bearer, keys))]
    assert codes == [401, 200, 403]


def test_a_port_that_is_taken_stops_the_start_of_a_worker(tmp_path: Path) -> None:
    with build(settings(tmp_path)) as app, answering_metrics(app, 0) as address:
        taken = int(address.rsplit(":", 1)[1].partition("/")[0])
        with pytest.raises(InvalidSetting, match="in use by another program"), answering_metrics(app, taken):
            pass


def test_metrics_of_a_worker_are_not_offered_to_other_machines_without_keys() -> None:
    with pytest.raises(ValidationError, match=r"metrics_host '0\.0\.0\.0' can be reached from other machines"):
        Settings.model_validate({"metrics_host": "0.0.0.0"})


def test_each_process_of_a_worker_has_the_next_port(tmp_path: Path) -> None:
    found = tmp_path / "port"
    said = f"import os; open({str(found)!r}, 'w').write(os.environ.get('DUETIME_METRICS_PORT', 'none'))"
    ports = []
    for number, first in ((1, 9100), (3, 9100), (3, 0), (3, None)):
        place = ChildProcess(number, [sys.executable, "-c", said], first)
        place.look(0.0)
        assert place.process is not None
        place.process.wait()
        place.end()
        ports.append(found.read_text())
    assert ports == ["9100", "9102", "none", "none"]
