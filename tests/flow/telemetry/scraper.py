"""A real Prometheus, as Debian has it, with the rules of the examples."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml  # type: ignore[import-untyped]  # it has no stubs of its own

from tests.flow.telemetry.test_prometheus_files import alerts
from tests.services import reserved_port


class Server:
    """A running Prometheus: which alerts fire, and which series it has."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def firing(self) -> set[str]:
        found = self._asked("alerts", {})["alerts"]
        return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

    def has(self, query: str) -> bool:
        return bool(self._asked("query", {"query": query})["result"])

    def _asked(self, what: str, params: dict[str, str]) -> dict[str, Any]:
        try:
            answer = self._client.get(f"/api/v1/{what}", params=params)
            found: dict[str, Any] = answer.json()["data"]
        except (httpx2.TransportError, ValueError):
            return {"alerts": [], "result": []}  # it is starting
        return found


@contextmanager
def scraping(program: str, folder: Path, *addresses: str, token: str | None = None) -> Iterator[Server]:
    """Let it scrape these addresses each second, with a bearer token where they ask for one; a `for` is a second."""
    rules = [
        {key: "1s" if key == "for" else value for key, value in rule.items() if key != "keep_firing_for"}
        for rule in alerts().values()
    ]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "duetime", "rules": rules}]}), "utf-8")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_config(addresses, token)), "utf-8")
    with reserved_port() as port:
        options = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}"]
        command = [program, f"--config.file={folder / 'prometheus.yml'}", *options]
        with (
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                yield Server(client)
            finally:
                process.terminate()


def _config(addresses: Sequence[str], token: str | None) -> dict[str, Any]:
    targets = [address.removeprefix("http://").removesuffix("/metrics") for address in addresses]
    given = {"authorization": {"credentials": token}} if token else {}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "duetime", "static_configs": [{"targets": targets}], **given}],
    }
