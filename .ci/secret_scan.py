"""Look for secrets in every file that git keeps, by detect-secrets and by the forms of Duetime's own.

There is no baseline: what is found has to be in MADE_UP, in plain sight, or it fails. So has what is in MADE_UP and is
found no more. Run as `secret_scan.py [folder]`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from detect_secrets.core.secrets_collection import SecretsCollection
from detect_secrets.settings import default_settings, get_plugins

OWN = (re.compile(r"\bd[ft]_[0-9a-hjkmnp-tv-z]{12}_[0-9a-f]{64}\b"), re.compile(r"\bwhsec_[A-Za-z0-9+/]{32,}"))
"""An API key or the token of a fire address, and a secret that signs webhooks."""

WITHOUT_QUOTES = frozenset({".yaml", ".yml", ".toml", ".ini", ".cfg", ".example", ".env", ".conf"})
"""Files in which the scanner finds values that stand without quotes."""

BUILT = "widgets/html/"
"""Minified from widgets/src, which is scanned; a test builds it again and compares."""

MADE_UP = {
    "password": "a placeholder",
    "change-me": "a placeholder in examples",
    "whsec_<32 bytes in base64>": "a placeholder in the page of settings",
    "whsec_...": "a placeholder",
    "dt_[0-9a-hjkmnp-tv-z]{12}_[0-9a-f]{64}": "the form of a key, for scanners",
    "duetime-tls}": "the name of a Kubernetes secret",
    "GET /v1/secrets lists all.": "where an unknown secret is looked up",
    "secret_set": "a kind of audit entry",
    "secret_removed": "a kind of audit entry",
    "secrets_rotated": "a kind of audit entry",
    "secret:signing": "a reference to a secret",
    "0123456789abcdefghjkmnpqrstvwxyz": "the letters of ids",
    "4bf92f3577b34da6a3ce929d0e0e4736": "the trace id of the W3C's example",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": "the example of the Standard Webhooks specification",
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD": "an older key in tests",
    "whsec_": "how a value in tests begins",
    "whsec_x": "a value of tests",
    "whsec_hunter2": "a value of tests",
    "sk-hunter2": "a value of tests",
    "sk-9f8e7d6c5b4a": "a value of tests",
    "hunter2": "a value of tests",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": "a key of zeros in tests",
    "secret": "a value of tests",
    "pw": "a value of tests",
    r"a%b\\c": "a value of tests, hard to quote",
    "eyJhbGciOiJub25lIn0.e30.": "a token in tests that nobody signed",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.": "a token in tests that nobody signed",
    "https://hooks.slack.com/services/T0/B0/abcdef": "an address in tests, too short for a real one",
    "BEGIN RSA PRIVATE KEY": "a first line without a key, in tests",
}
"""Values that look like secrets and are none, with what they are."""


class Finding(NamedTuple):
    """A value that may be a secret, and where it stands; it is never printed whole."""

    place: str
    kind: str
    value: str


def kept_texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that git keeps or would keep, if it is text."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    for path in (root / name for name in names if name and not name.startswith(BUILT)):
        if path.is_file():
            try:
                yield path, path.read_text("utf-8")
            except UnicodeDecodeError:
                continue


def suspicious(files: Iterable[tuple[Path, str]]) -> Iterator[Path]:
    """Yield the files with a line that any detector takes up: asking each line once is much faster than a scan."""
    detectors: list[Any] = get_plugins()
    seen: set[str] = set()
    for path, text in files:
        fresh = set(text.splitlines()) - seen
        seen |= fresh
        unquoted = path.suffix in WITHOUT_QUOTES
        if unquoted or any(each.analyze_line(str(path), line, 0) for line in fresh for each in detectors):
            yield path


def findings(root: Path) -> Iterator[Finding]:
    """Yield what the scanner finds in these files, and keys of Duetime's own."""
    files = list(kept_texts(root))
    with default_settings():
        found: Any = SecretsCollection()
        for path in suspicious(files):
            found.scan_file(str(path))
        for name, secret in found:
            yield Finding(f"{name}:{secret.line_number}", secret.type, secret.secret_value)
    for path, text in files:
        for number, line in enumerate(text.splitlines(), 1):
            yield from (Finding(f"{path}:{number}", "Duetime", hit[0]) for form in OWN for hit in form.finditer(line))


def main() -> int:
    """Print what was found, and return whether anything was."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = {each for each in findings(root) if Path(each.place.rpartition(":")[0]).name != Path(__file__).name}
    for each in sorted(found):
        if each.value not in MADE_UP:
            hint = "looks like a secret; take it out, or say in MADE_UP what it is"
            sys.stdout.write(f"{each.place}: {each.kind}: {each.value[:4]}... {hint}\n")
    gone = MADE_UP.keys() - {each.value for each in found} if len(sys.argv) == 1 else set()
    for value in sorted(gone):
        sys.stdout.write(f"{value!r} is in MADE_UP and nowhere else; take it out there\n")
    return int(bool(gone) or any(each.value not in MADE_UP for each in found))


if __name__ == "__main__":
    sys.exit(main())
