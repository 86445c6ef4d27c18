"""Write the page docs/configuration.md from the model of the settings.

python .ci/configuration_page.py docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from duetime.server.settings.access import AccessSettings
from duetime.server.settings.channels import ChannelSettings, OriginSettings
from duetime.server.settings.external_actions import ExternalActionSettings
from duetime.server.settings.layers import VARIABLE_PREFIX
from duetime.server.settings.masks import masked
from duetime.server.settings.model import Settings
from duetime.server.settings.notices import NoticeSettings
from duetime.server.settings.retention import RetentionRuleSettings, RetentionSettings
from duetime.server.settings.work import WorkSettings
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

HEAD = """\
# Configuration

<!-- Written by `python .ci/configuration_page.py docs/configuration.md`; a test compares it with the model. -->

Everything works without any configuration. A setting is an environment variable or a line of a TOML file, under one
name: `DUETIME_THREADS=4` or `threads = 4`. A variable overrides the file; a command-line option overrides both.
`duetime config` shows every value in force and its source.

`--config` or `DUETIME_CONFIG` names the file. Without them it is `duetime.toml` in the user's configuration directory,
if it is there. That directory is `~/.config/duetime/` on Linux, `~/Library/Application Support/duetime/` on macOS and
`%LOCALAPPDATA%\\duetime\\` on Windows.

A setting that does not exist or is wrong stops the start with exit code 2. The error names the setting, its value and
the accepted values. Variables that begin with `DUETIME_TEST_` belong to the test suite and are ignored.

Separate several values by commas in a variable; write a list in the file. Secrets are never shown.
"""

KINDS: Mapping[Any, str] = {
    bool: "`true` or `false`",
    int: "a whole number",
    float: "a number",
    Decimal: "a decimal number",
    **dict.fromkeys((str, SecretStr), "text"),
    Path: "a path",
}

GROUPS: Mapping[type[BaseModel], str] = {
    WorkSettings: "storage, work and channels",
    RetentionSettings: "what is deleted, and when",
    AccessSettings: "who may call, secrets, limits of tenants, metrics",
    NoticeSettings: "alerts and quiet hours",
}

TRACES = """\
## Traces

Traces have no settings here: the `OTEL_*` variables of OpenTelemetry turn them on and say where they go, see
[Traces](tracing.md).
"""

CHANNELS = """\
## Channels

A channel delivers outcomes in addition to the inbox. A task names its channels in `deliver_to`; the setting
`deliver_to` applies to every other task. `inbox` always exists, and `desktop` exists where there is a desktop.

A channel with `outcomes = ["failed", "expired"]` gets failures only: runs that failed for good, runs that expired,
and runs that succeeded [unverified](outcomes.md#outcome-contracts). A run expires when its hard deadline can no longer
be met, or when an awaited event or condition does not come. `desktop_outcomes` limits the desktop in the same way. The
inbox has every outcome. A reminder that was shown has succeeded. A run that was cancelled or skipped has no message at
all.
"""

ORIGINS = """\
## Origins

Where `deliver_to=["origin"]` leads, for each client by the name that it gives itself:
see [Origins](outcomes.md#origins). No call can add an address or a program. Every tenant's tasks may go to the address
of their client, as to any channel.
"""

AFTER_ORIGINS = """\
Both get the body of a channel's webhook, with `data.origin`, `data.tenant` and `data.user`; a command also gets
`idempotency_key`. A command runs once for each try, as the user of the process that delivers and without its `DUETIME_`
variables. It has delivered when it ends with 0 within `webhook_timeout_seconds`; when its time is over it is killed
with all that it started. A failed try is repeated like any delivery.
"""

EXTERNAL = """\
## External actions

Actions whose runs [external workers](external-workers.md) claim over MCP. The name of the table is that of the action,
which no handler may have. Every process of an installation needs the same tables.
"""

RETENTION = """\
## Retention

Each `[[retention]]` is a rule. Rows that any rule lets go are deleted once they are old enough, but for what is still
needed: see [Retention](operations.md#retention). A rule with a `tenant` replaces those without one for it, so
`age = "forever"` excepts a tenant from the others. Before you make a rule longer, copy the old one, with its last
day as `until`: see [Former rules](operations.md#former-rules).
"""

EXAMPLE = """\
## Example

```toml
timezone = "America/Edmonton"
handlers = ["my_handlers"]
deliver_to = ["team"]

[pools.gpu]
capacity = 2

[pools.openai]
kind = "rate"
capacity = 500
per = "minute"

[channels.team]
apprise = "tgram://bot-token/chat-id"

[channels.pager]
apprise = "pagerduty://integration-key@api-key"
outcomes = ["failed", "expired"]

[channels.crm]
webhook = "https://crm.example.com/duetime"
secret = "whsec_<32 bytes in base64>"

[origins.claude-code]
command = ["/usr/local/bin/back-to-chat"]

[[retention]]
what = "tasks"
age = "180 days"

[[retention]]
what = "runs"
age = "30 days"
```

An empty variable counts as none: the file, or the default, has the setting.

In the environment, channels and pools are one variable each, in JSON: `DUETIME_POOLS='{"gpu": {"capacity": 2}}'`,
`DUETIME_CHANNELS='{"team": {"apprise": "tgram://bot-token/chat-id"}}'`. A pool that the settings no longer name is
removed at the next start. Settings without `pools` remove none; an empty table (`[pools]`, `DUETIME_POOLS='{}'`)
removes every pool that settings have declared.
"""


def configuration_page() -> str:
    """Return the whole page."""
    settings = "\n".join(line for name, field in Settings.model_fields.items() for line in _setting(name, field))
    channels = _keys(ChannelSettings.model_fields)
    rules = _keys(RetentionRuleSettings.model_fields)
    origins = f"{ORIGINS}\n{_keys(OriginSettings.model_fields)}\n{AFTER_ORIGINS}"
    external = f"{EXTERNAL}\n{_keys(ExternalActionSettings.model_fields)}"
    head = f"{HEAD}\n{_index()}\n## Settings\n"
    return (
        f"{head}\n{settings}\n{TRACES}\n{CHANNELS}\n{channels}\n{origins}\n{external}\n{RETENTION}\n{rules}\n{EXAMPLE}"
    )


def _index() -> str:
    """Return the table that leads to each setting, by what it is for."""
    own = [name for name in Settings.model_fields if not any(name in group.model_fields for group in GROUPS)]
    named = [*((purpose, list(group.model_fields)) for group, purpose in GROUPS.items()), ("logs", own)]
    rows = [f"| {purpose} | {_links(names)} |" for purpose, names in named]
    return "| for | settings |\n|---|---|\n" + "\n".join(rows) + "\n"


def _links(names: Iterable[str]) -> str:
    return "; ".join(f"[`{name}`](#{name})" for name in names)


def _keys(fields: Mapping[str, FieldInfo]) -> str:
    """Return the table of the keys in a table of the settings."""
    rows = "\n".join(f"| `{name}` | {field.description} | `{_example(field)}` |" for name, field in fields.items())
    return f"| key | what | example |\n|---|---|---|\n{rows}\n"


def _setting(name: str, field: FieldInfo) -> Iterator[str]:
    description = field.description or ""
    yield f"### `{name}`"
    yield ""
    yield f"{description[:1].upper()}{description[1:]}."
    yield ""
    yield f"- variable: `{VARIABLE_PREFIX}{name.upper()}`"
    yield f"- accepted: {_accepted(field)}"
    yield f"- default: {_default(name, field)}"
    yield f"- example: `{_example(field)}`"
    yield ""


def _accepted(field: FieldInfo) -> str:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit = f" {extra['unit']}" if "unit" in extra else ""
    choices = _choices(field.annotation)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    return f"{_kind(field.annotation)}{_range(field)}{unit}"


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _kind(annotation: Any) -> str:
    """Name what a setting accepts; raises `TypeError` for an annotation that has no words here."""
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part is not NoneType]
    if origin in {tuple, dict, list}:
        return "names" if origin is tuple else "tables, see below"
    if origin is Annotated or (origin in {Union, UnionType} and len(parts) == 1):
        return _kind(parts[0])
    if annotation not in KINDS:
        raise TypeError(f"{annotation!r} has no words in KINDS")
    return KINDS[annotation]


def _range(field: FieldInfo) -> str:
    words = {Ge: "from {0.ge}", Gt: "above {0.gt}", Le: "to {0.le}"}
    return "".join(" " + words[type(bound)].format(bound) for bound in field.metadata if type(bound) in words)


def _default(name: str, field: FieldInfo) -> str:
    elsewhere = {
        "database_url": "the SQLite file `duetime.db` in the user's data directory, see [Operations](operations.md)",
        "timezone": "the system's zone",
        "spread_seconds": "`120` with Redis or `auth`, else `0`",
    }
    if name in elsewhere:
        return elsewhere[name]
    value = "" if field.default is PydanticUndefined else masked(field.default)
    return f"`{value}`" if value else "none"


def _example(field: FieldInfo) -> str:
    return str((field.examples or [""])[0])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(configuration_page(), encoding="utf-8")
