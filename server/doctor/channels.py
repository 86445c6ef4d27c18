"""The checks of `duetime doctor` on channels: whether each can be opened, has its secrets, and takes a test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.delivery import ChannelError, Channels
from duetime.scheduler.errors import DuetimeError, InvalidSetting
from duetime.scheduler.ids import new_id
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.deliveries.channel_failures import FailingChannel
from duetime.scheduler.task import InboxMessage, State
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.settings.model import Settings
from duetime.server.settings.options import channel_options
from duetime.server.settings.secret_keys import SettingSecrets, store_keys

MAX_NAME_CHARS = 60
"""The most of an unknown name that is repeated."""


def opened(settings: Settings) -> Store:
    """Return the store of the settings as it is; raises DuetimeError."""
    keys = store_keys(settings)
    return open_store(settings.database_url, synchronous=settings.sqlite_synchronous, migrate=False, **keys)


def channel_checks(settings: Settings, *, send_test: bool) -> Iterator[Check]:
    """Look whether each channel can be opened and has its secrets; with `send_test` also whether it takes a test."""
    try:
        channels = Channels.from_options(channel_options(settings), reveal=_revealing(settings))
    except InvalidSetting as error:
        yield Check("channels", CheckVerdict.WRONG, str(error))
        return
    if "desktop" not in channels and settings.desktop_notifications == "auto":
        text = "no desktop here can show notifications; outcomes go to the inbox and the channels."
        yield Check("desktop", CheckVerdict.NOTE, text)
    try:
        missing = _missing_secrets(settings)
        for name in channels:
            if name in missing:
                yield _lacking(name, missing[name], settings.operator_tenant)
            else:
                yield _sent(channels, name) if send_test else _configured(name)
    finally:
        channels.close()


def deliveries_check(store: Store, settings: Settings, *, send_again: AuditEntry | None = None) -> Check:
    """Look for channels whose deliveries were given up, or fail again and again.

    Deliveries that were given up for the subject of `send_again` become due first; a channel that is neither configured
    nor failing is wrong.
    """
    found = store.deliveries.failing()
    sent = []
    if send_again is not None:
        known = {*settings.channels, "desktop", *(each.name for each in found)}
        if send_again.subject not in known:
            return _unknown(str(send_again.subject), sorted(known))
        sent = [_sent_again(store, send_again)]
        found = store.deliveries.failing()
    if not found:
        return Check("deliveries", CheckVerdict.OK, " ".join(sent) or "none was given up")
    said = "; ".join(f"{each.name}: {_failures(each)} ({each.error or 'no error is known'})" for each in found)
    again = ", ".join(f"`duetime doctor --send-again {each.name}`" for each in found if each.given_up)
    advice = ["`duetime doctor --send-test` tests each channel."]
    advice += [f"Once it works, send again what was given up: {again}"] if again else []
    verdict = CheckVerdict.WRONG if any(each.failing for each in found) else CheckVerdict.NOTE
    return Check("deliveries", verdict, " ".join([*sent, f"{said}."]), " ".join(advice))


def _failures(channel: FailingChannel) -> str:
    """Say what a channel has not taken: `12 given up, 3 failed, and the next try is at 2026-05-01 09:30 UTC`."""
    given_up = f"{channel.given_up:,} given up" if channel.given_up else ""
    again = f"{channel.next_at:%Y-%m-%d %H:%M} UTC" if channel.next_at else ""
    failing = f"{channel.failing:,} failed, and the next try is at {again}" if again else ""
    return ", ".join(filter(None, (given_up, failing)))


def _unknown(channel: str, known: list[str]) -> Check:
    said = f"there is no channel {channel[:MAX_NAME_CHARS]!r}, so nothing is sent again."
    advice = f"Accepted: {', '.join(known)}. Example: `duetime doctor --send-again {known[0]}`"
    return Check("deliveries", CheckVerdict.WRONG, said, advice)


def _sent_again(store: Store, act: AuditEntry) -> str:
    channel = str(act.subject)
    count = store.deliveries.send_again(channel, act)
    return f"{count:,} that {'was' if count == 1 else 'were'} given up for {channel} will be sent again."


def _configured(name: str) -> Check:
    return Check(name, CheckVerdict.OK, "is configured; --send-test tests it")


def _missing_secrets(settings: Settings) -> dict[str, list[str]]:
    """Return the secrets that channels name and their tenant lacks, by channel; none while the database is away."""
    named = channel_options(settings).secret_names()
    if not named:
        return {}
    try:
        store = opened(settings)
    except DuetimeError:
        return {}
    try:
        there = store.secrets.hosts(settings.operator_tenant)
    finally:
        store.close()
    lacking = ((channel, [name for name in names if name not in there]) for channel, names in named.items())
    return {channel: names for channel, names in lacking if names}


def _lacking(channel: str, names: list[str], tenant: str) -> Check:
    of_tenant = "" if tenant == LOCAL.tenant else f" --tenant {tenant}"
    said = f"tenant {tenant} has no secret {', '.join(map(repr, names))}, so every message to it fails."
    return Check(channel, CheckVerdict.WRONG, said, f"Set it: `duetime secrets set {names[0]}{of_tenant}`")


def _revealing(settings: Settings) -> SettingSecrets:
    """Return what reads the secrets that settings name, for a message of a test."""

    def value(tenant: str, name: str) -> str:
        store = opened(settings)
        try:
            return store.secrets.value(tenant, name)
        finally:
            store.close()

    named = SettingSecrets(settings.operator_tenant)
    named.read_by(value)
    return named


def _sent(channels: Channels, name: str) -> Check:
    message = InboxMessage(
        id=new_id("m"),
        tenant=LOCAL.tenant,
        user=LOCAL.user,
        task_id="t_doctor",
        run_id="r_doctor",
        title="Duetime test",
        text="`duetime doctor --send-test` sent this. Outcomes reach you here.",
        state=State.SUCCEEDED,
        created_at=datetime.now(UTC),
    )
    try:
        channels[name].send(message, key=message.id)
    except ChannelError as error:
        return Check(
            name,
            CheckVerdict.WRONG,
            f"the test did not arrive: {error}.",
            "Check its settings (docs/configuration.md).",
        )
    return Check(name, CheckVerdict.OK, "accepted the test message; check that it arrived")
