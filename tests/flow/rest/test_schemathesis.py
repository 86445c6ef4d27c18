"""Schemathesis holds the served API against its document: every check, over a real server with keys.

The suite draws a few examples of a fixed seed; `.ci/run search` draws many, of another one. Each argument of a query
has to be answered at least once: one that is always refused is not tried at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import settings

from tests import forked
from tests.flow.protocol.serve_process import ServerLog
from tests.flow.rest.served import environment, new_key
from tests.search import USUAL_EXAMPLE_COUNT, examples

FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "1"))
EXAMPLES = examples(3).max_examples
SEARCHING = settings().max_examples > USUAL_EXAMPLE_COUNT
DOCUMENT = Path(__file__).resolve().parents[3] / "docs/openapi.json"
REPORT = "requests.har"
PATIENCE_S = 3_600
ANSWER_PATIENCE_S = 60
REST_PATH = "/v1/openapi.json"
CONFIGURATION = """
# A time, a recurrence or a pool is a text to a schema; whether it is understood, only the server can say.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 412, 422]

[[operations]]
include-path = "/changes"
parameters = {{ seconds = 0 }}

[[operations]]
include-operation-id = "stream_run_log"
parameters = {{ seconds = 0 }}

# An answer that waits for the end of a run comes later than the client has patience.
[[operations]]
include-operation-id = "get_task"
parameters = {{ wait = "0" }}

# The key that the requests are made with has to stay.
[[operations]]
include-path-regex = "/keys/.*"
parameters = {{ key_id = "{spare}" }}
"""
BRIEF = """
[phases.coverage]
unexpected-methods = ["QUERY"]

[phases.coverage.generation]
mode = "positive"
"""
"""In the suite each bound of what is accepted is tried; a search tries what is beyond it too, at every place."""


def checked(folder: Path, address: str, key: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("st"), "--config-file", folder / "schemathesis.toml", "run"]
    options = [f"{address.removesuffix('/mcp')}{REST_PATH}", "--checks", "all", "--seed", FIRST_SEED, "--no-color"]
    drawn = ["--max-examples", EXAMPLES, "-H", f"Authorization: Bearer {key}", "--continue-on-failure"]
    patience = ["--request-timeout", ANSWER_PATIENCE_S]
    told = ["--report", "har", "--report-har-path", folder / REPORT]
    words = [str(word) for word in (*command, *options, *drawn, *patience, *told)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def never_answered(report: Path) -> list[tuple[str, str]]:
    """Return the arguments in queries of routes without an id that no answered request had."""
    answered: set[tuple[str, str]] = set()
    for entry in json.loads(report.read_text("utf-8"))["log"]["entries"]:
        if HTTPStatus.OK <= entry["response"]["status"] < HTTPStatus.MULTIPLE_CHOICES:
            url = urlsplit(entry["request"]["url"])
            answered |= {(url.path.removeprefix("/v1"), name) for name in parse_qs(url.query, keep_blank_values=True)}
    paths = json.loads(DOCUMENT.read_text("utf-8"))["paths"]
    operations = [(path, each) for path, methods in paths.items() if "{" not in path for each in methods.values()]
    given = [(path, one) for path, operation in operations for one in operation.get("parameters", ())]
    return sorted({(path, one["name"]) for path, one in given if one["in"] == "query"} - answered)


@pytest.mark.random_walk
@pytest.mark.timeout(PATIENCE_S)
def test_the_api_is_as_its_document_says(tmp_path: Path) -> None:
    key, spare = new_key(tmp_path, "tasks", "admin"), new_key(tmp_path)
    configuration = CONFIGURATION.format(spare=spare["id"]) + ("" if SEARCHING else BRIEF)
    (tmp_path / "schemathesis.toml").write_text(configuration, "utf-8")
    serve = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(serve, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)) as process:
        log = ServerLog(process.stderr)
        try:
            found = checked(tmp_path, log.address, key["key"])
        finally:
            process.terminate()
            told = log.rest()
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert "defect" not in told
    assert never_answered(tmp_path / REPORT) == []
