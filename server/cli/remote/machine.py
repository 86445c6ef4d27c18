"""The verbs about an installation on another machine: import, doctor, config."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Final

from duetime.scheduler.errors import Refused
from duetime.server.cli.installation import check_reason, show_config, show_doctor
from duetime.server.cli.remote.administration import PATIENCE_S
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tasks import Params, reason_of
from duetime.server.cli.storage.imports import in_turn, show_import, unreadable
from duetime.server.rest.administration.imports import MAX_CONTENT_BYTES
from duetime.tools.admin.retention_rows import import_json

NO_FILE: Final = "none; no setting is from a file"


def import_(server: RemoteServer, params: Params) -> None:
    """Store files of this machine again, in the database over there."""
    stored, known = Counter[str](), 0
    tenant = {"tenant": params["tenant"]} if params["tenant"] else {}
    with in_turn(params["files"]) as paths:
        for path in paths:
            content = base64.b64encode(_content(path)).decode()
            body = {"name": path.name, "content": content, **tenant, **reason_of(params)}
            found = server.patiently(PATIENCE_S).post("/import", body)
            stored, known = stored + Counter(found["stored"]), known + found["there"]
    show_import(import_json(stored, known), as_json=params["as_json"])


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > MAX_CONTENT_BYTES:
        raise Refused(
            f"{path} has {len(content):,} bytes, and --server takes {MAX_CONTENT_BYTES:,} at most. Copy it to the "
            f"machine of the installation, and run there: duetime import {path.name}"
        )
    return content


def doctor(server: RemoteServer, params: Params) -> None:
    """Check the installation."""
    check_reason(params["reason"], params["send_again"])
    patient, again = server.patiently(PATIENCE_S), params["send_again"]
    if again:
        test = {"send_test": True} if params["send_test"] else {}
        found = patient.post("/doctor", {"deep": params["deep"], "send_again": again, **test, **reason_of(params)})
    elif params["send_test"]:
        found = patient.post("/doctor", {"deep": params["deep"]})
    else:
        found = patient.get("/doctor", deep="true" if params["deep"] else None)
    show_doctor(found, as_json=params["as_json"])


def config(server: RemoteServer, params: Params) -> None:
    """Show the settings in force."""
    show_config(server.get("/config"), NO_FILE, as_json=params["as_json"])
