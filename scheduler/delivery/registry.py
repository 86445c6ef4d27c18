"""The channels of one process, by their name in `deliver_to`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from duetime.scheduler.access.secret import references
from duetime.scheduler.calls.origin import CHANNEL_PREFIX, NO_ORIGIN, ORIGIN, channel_of
from duetime.scheduler.delivery.apprise import AppriseChannel
from duetime.scheduler.delivery.channel import Channel
from duetime.scheduler.delivery.command import CommandChannel
from duetime.scheduler.delivery.desktop import DesktopChannel
from duetime.scheduler.delivery.webhook import WEBHOOK_PREFIX, WebhookChannel, WebhookTarget
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import State

OriginTarget = WebhookTarget | tuple[str, ...]
"""The address of a client to which outcomes go back: a webhook, or a program with its arguments."""

_ALWAYS_THERE = {"inbox", DesktopChannel.name}
_COUNTS_AS = {State.CANCELLED: State.EXPIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """Configured channels: webhooks and Apprise URLs by name; `desktop` is on, off or `auto` (if there is one).

    `origins` are the addresses of clients, by name. `outcomes` are those that a channel takes, by the same names and
    `desktop`; it takes all where it is not named.
    """

    desktop: Literal["auto", "on", "off"] = "auto"
    webhooks: Mapping[str, WebhookTarget] = field(default_factory=dict)
    apprise: Mapping[str, str] = field(default_factory=dict, repr=False)
    origins: Mapping[str, OriginTarget] = field(default_factory=dict)
    outcomes: Mapping[str, Collection[State]] = field(default_factory=dict)
    timeout: float = 20.0

    def secret_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the secrets that channels need, by channel; without those that need none."""
        targets = {f"{WEBHOOK_PREFIX}{name}": to for name, to in self.webhooks.items()}
        back = {f"{CHANNEL_PREFIX}{client}": to for client, to in self.origins.items()}
        texts = {name: (url,) for name, url in self.apprise.items()} | {
            name: (to.secret or "", *to.headers.values())
            for name, to in {**targets, **back}.items()
            if isinstance(to, WebhookTarget)
        }
        named = {name: tuple(each for text in of_it for each in references(text)) for name, of_it in texts.items()}
        return {name: secrets for name, secrets in named.items() if secrets}


class Channels(Mapping[str, Channel]):
    """A read-only registry. A webhook is named `webhook:<name>`; its bare name works as well.

    That of a client is named `origin:<client>`; tasks name it `origin`, which is that of their own client alone.
    The inbox is not among them: the transaction that stores an outcome writes its inbox message.
    """

    def __init__(
        self,
        channels: Iterable[Channel] = (),
        *,
        outcomes: Mapping[str, Collection[State]] | None = None,
        secret_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._by_name = {channel.name: channel for channel in channels}
        self._secret_names = secret_names or {}
        self._outcomes = {self[name].name: taken for name, taken in (outcomes or {}).items() if name in self}

    @classmethod
    def from_options(
        cls, options: ChannelOptions, *, desktop: DesktopChannel | None = None, reveal: Callable[[str], str] = str
    ) -> Self:
        """Open the configured channels; raises `InvalidSetting` with the name of a channel that cannot be opened.

        `reveal` puts the secrets that a setting names in their places.
        """
        screen = desktop or DesktopChannel()
        wanted = options.desktop == "on" or (options.desktop == "auto" and screen.available())
        channels: list[Channel] = [screen] if wanted else []
        channels += [
            WebhookChannel(name, to, timeout=options.timeout, reveal=reveal) for name, to in options.webhooks.items()
        ]
        channels += [AppriseChannel(name, url, reveal) for name, url in options.apprise.items()]
        channels += [_back_to(client, target, options.timeout, reveal) for client, target in options.origins.items()]
        return cls(channels, outcomes=options.outcomes, secret_names=options.secret_names())

    def default_channels(self) -> tuple[str, ...]:
        """Return the channels of a task that names none, without the inbox."""
        return tuple(name for name in self._by_name if name == DesktopChannel.name)

    def besides_inbox(self, origin: Mapping[str, Any] = NO_ORIGIN) -> tuple[str, ...]:
        """Return the names of the channels that a task of this origin may name."""
        own = f"{CHANNEL_PREFIX}{origin.get('client')}"
        return tuple(ORIGIN if name == own else name for name in self._by_name if name == own or self._is_open(name))

    def lacking(self, deliver_to: Sequence[str], secrets: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Return those of a task's channels that need a secret which is not among `secrets`."""
        needed = {name: self._secret_names[name] for name in deliver_to if name in self._secret_names}
        if not needed:
            return ()
        there = set(secrets())
        return tuple(name for name, names in needed.items() if not set(names) <= there)

    def check(self, deliver_to: Sequence[str], origin: Mapping[str, str] = NO_ORIGIN) -> tuple[str, ...]:
        """Return the named channels, without the inbox and repeats; `origin` is that of the task.

        Raises `InvalidArgument` with a list of known ones.
        """
        if not deliver_to:
            return ()
        own = f"{CHANNEL_PREFIX}{origin.get('client')}"
        named = [channel_of(origin, self._by_name) if name in {ORIGIN, own} else name for name in deliver_to]
        unknown = next((name for name in named if name not in {"inbox", own} and not self._is_open(name)), None)
        if unknown is not None:
            raise InvalidArgument(
                "deliver_to",
                f"no channel {unknown[:60]!r} is configured",
                accepted=", ".join(("inbox", *self.besides_inbox(origin))),
                example="deliver_to=['inbox']",
            )
        return tuple(dict.fromkeys(self[name].name for name in named if name != "inbox"))

    def reached(self, deliver_to: Sequence[str]) -> tuple[str, ...]:
        """Return those of a stored task's channels that there are by now, and the inbox.

        Whether there is a desktop changes with each login, and a client may have no address: these two always count.
        """
        return tuple(
            [name for name in deliver_to if name in _ALWAYS_THERE or name in self or name.startswith(CHANNEL_PREFIX)]
        )

    def _is_open(self, name: str) -> bool:
        """Whether every task may name the channel: that of a client is for tasks of this client only."""
        return name in self and not name.startswith(CHANNEL_PREFIX)

    def takes(self, name: str, outcome: State) -> bool:
        """Whether a channel takes an outcome. A channel that is not configured counts as taking every outcome.

        A question goes to every channel. A run that was cancelled because nobody answered counts as expired.
        """
        taken = self._outcomes.get(name, (outcome,))
        return outcome is State.WAITING or _COUNTS_AS.get(outcome, outcome) in taken

    def close(self) -> None:
        """Close all channels."""
        for channel in self._by_name.values():
            channel.close()

    def __getitem__(self, name: str) -> Channel:
        return self._by_name.get(name) or self._by_name[f"webhook:{name}"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _back_to(client: str, target: OriginTarget, timeout: float, reveal: Callable[[str], str]) -> Channel:
    if isinstance(target, WebhookTarget):
        return WebhookChannel(client, target, timeout=timeout, reveal=reveal, prefix=CHANNEL_PREFIX)
    return CommandChannel(f"{CHANNEL_PREFIX}{client}", target, timeout=timeout)
