"""The checks of an installation and its settings, for operators; secrets are never shown."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Scope
from duetime.server.doctor.check import CheckVerdict
from duetime.server.doctor.examine import examine
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.settings.source import config_json, file_read
from duetime.server.setup.invocation import this_invocation
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag, Text
from pydantic import Field


class CheckPayload(RestPayload):
    """A check: what was found, and what to do about it."""

    name: str
    verdict: CheckVerdict
    said: str
    advice: str | None = None


class DoctorPayload(RestPayload):
    """The checks of an installation, as the process that answers sees it."""

    schema_: Annotated[Literal["duetime.doctor/1"], Field(alias="schema")] = "duetime.doctor/1"
    checks: tuple[CheckPayload, ...]


class SettingPayload(RestPayload):
    """A setting in force: its value, with secrets masked, and where it is from."""

    name: str
    value: str
    from_: Annotated[str, Field(alias="from")]


class ConfigPayload(RestPayload):
    """The settings in force of the process that answers; `file` is the one that it has settings from."""

    schema_: Annotated[Literal["duetime.config/1"], Field(alias="schema")] = "duetime.config/1"
    file: str | None = None
    settings: tuple[SettingPayload, ...]


def doctor(call: RestCall) -> RestAnswer:
    """Check the installation, and change nothing."""
    return _checked(call, send_test=False)


def doctor_with_messages(call: RestCall) -> RestAnswer:
    """Check the installation, and send a test message to every channel, or again what was given up for one."""
    channel, reason = call.values.get("send_again"), call.values.get("reason")
    if reason is not None and channel is None:
        raise InvalidArgument(
            "reason",
            "only with send_again",
            accepted="none without it",
            example="send_again='team', reason='it is back'",
        )
    act = AuditEntry.by(call.by, AuditKind.DELIVERIES_SENT_AGAIN, channel, reason=reason) if channel else None
    answer = _checked(call, send_test=call.values.get("send_test", act is None), send_again=act)
    call.parts.runner.wake()
    return answer


def _checked(call: RestCall, *, send_test: bool, send_again: AuditEntry | None = None) -> RestAnswer:
    settings, deep, store = call.parts.settings, bool(call.values.get("deep")), call.parts.store
    config = file_read(settings)
    sent: dict[str, Any] = {"send_test": send_test, "send_again": send_again}
    found = examine(settings, this_invocation(), config=config, deep=deep, running=store, **sent)
    return RestAnswer(DoctorPayload.model_validate({"checks": [check.as_json() for check in found]}))


def config(call: RestCall) -> RestAnswer:
    """Return every setting in force."""
    settings = call.parts.settings
    return RestAnswer(ConfigPayload.model_validate(config_json(settings, file_read(settings))))


_DEEP: Final = Argument("deep", Flag(), "Read the whole database too; it may take minutes", "deep=true")
_SEND_TEST: Final = Argument(
    "send_test",
    Flag(),
    "Send a test message to every channel; default true unless send_again is given",
    "send_test=false",
)
_SEND_AGAIN: Final = Argument(
    "send_again", Text(60), "Send again what was given up for this channel", "send_again='team'"
)
OF_DOCTOR = (
    Operation(
        "get_doctor",
        "GET",
        "/doctor",
        "Check database, clock, zone, runner, handlers, channels and settings, with remedies",
        doctor,
        DoctorPayload,
        Scope.ADMIN_READ,
        in_query=(_DEEP,),
        for_operators=True,
    ),
    Operation(
        "send_doctor_test",
        "POST",
        "/doctor",
        "Check the same, and send a test message to every channel, or again what was given up for one",
        doctor_with_messages,
        DoctorPayload,
        Scope.ADMIN,
        body=(
            _DEEP,
            _SEND_TEST,
            _SEND_AGAIN,
            REASON,
        ),
        for_operators=True,
    ),
    Operation(
        "get_config",
        "GET",
        "/config",
        "Show every setting in force and where it is from; secrets are masked",
        config,
        ConfigPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
)
