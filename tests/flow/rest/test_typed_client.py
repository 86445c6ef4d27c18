"""A typed client, generated from the document, compiles and calls a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from duetime.server.rest.document import text

from tests import forked
from tests.flow.protocol.serve_process import ServerLog
from tests.flow.rest.served import environment, new_key
from tests.widgets import provision
from tests.widgets.tooling import ROOT, ensure_node_modules

SOURCES = Path(__file__).parent / "client"
CACHE = ROOT / "build" / "rest-client"
"""Outside git; the modules stay here between test runs."""

STRICT = ("--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022", "--types", "node")
NODE_CACHE = ROOT / "build" / "card-tests"


@pytest.fixture(scope="module")
def modules() -> Path:
    """Install the generator, which needs an older compiler as its library, and the compiler."""
    return ensure_node_modules(CACHE, SOURCES / "package.json")


@pytest.fixture
def program(modules: Path, tmp_path: Path) -> Path:
    """Return the compiled program over a client that is generated again."""
    folder = tmp_path / "client"
    shutil.copytree(SOURCES, folder)
    (folder / "node_modules").symlink_to(modules)
    (folder / "openapi.json").write_text(text(), "utf-8")
    generator = str(modules / ".bin" / "openapi-typescript")
    compiler = [provision.node(NODE_CACHE), str(modules / "typescript-native" / "bin" / "tsc")]
    try:
        provision.run([generator, "openapi.json", "--output", "duetime.d.ts"], folder)
        provision.run([*compiler, *STRICT, "client.ts"], folder)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{error.stdout}\n{error.stderr}", pytrace=False)
    return folder / "client.js"


def test_a_generated_client_compiles_and_calls_the_server(program: Path, tmp_path: Path) -> None:
    key = new_key(tmp_path, "tasks", "admin:read")["key"]
    serve = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(serve, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)) as process:
        log = ServerLog(process.stderr)
        try:
            command = [provision.node(NODE_CACHE), str(program), log.address.removesuffix("/mcp")]
            said = provision.run(command, program.parent, {**os.environ, "API_KEY": key})
        finally:
            process.terminate()
            log.rest()
    assert json.loads(said) == {
        "sameTask": True,
        "titles": ["Pay the rent", "Call John"],
        "etag": '"2"',
        "stale": 2,
        "state": "cancelled",
        "runs": ["cancelled"],
        "refused": "invalid_argument",
    }
