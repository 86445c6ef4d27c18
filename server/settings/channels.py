"""The settings of one channel: its address, its secret, and the outcomes that it takes."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.calls.origin import is_client
from duetime.server.settings.checks import Headers, SigningSecret, WebUrl, comma_separated
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator


def _client(name: str) -> str:
    if not is_client(name):
        raise ValueError(
            f"{name[:40]!r} is not a valid client name: it has 1 to 100 letters, digits, blanks and ._:/@+()-"
        )
    return name


OutcomeName = Literal["succeeded", "failed", "expired"]
Outcomes = Annotated[tuple[OutcomeName, ...], BeforeValidator(comma_separated), Field(min_length=1)]
ALL_OUTCOMES: Outcomes = ("succeeded", "failed", "expired")
"""The outcomes of which users are notified: a run that was cancelled or skipped has no message."""


_SIGNS = "signs the webhook, which has to have one; of the form of `webhook_secret`"
_EXAMPLES = ["whsec_<32 bytes in base64>"]

OriginClient = Annotated[str, AfterValidator(_client)]


class OriginSettings(BaseModel):
    """Where outcomes go back for tasks that a client asked for: a signed webhook, or a program of this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: WebUrl | None = Field(
        default=None,
        description="the address that receives a signed POST",
        examples=["https://bridge.example.com/outcome"],
    )
    secret: SigningSecret | None = Field(default=None, description=_SIGNS, examples=_EXAMPLES)
    headers: Headers = Field(
        default_factory=dict,
        description="headers of the webhook; a value may name a secret",
        examples=['{Authorization = "Bearer secret:bridge-token"}'],
    )
    command: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="a program with its arguments; it reads the outcome as JSON on its standard input",
        examples=['["/usr/local/bin/back-to-chat"]'],
    )

    @model_validator(mode="after")
    def _one_way(self) -> OriginSettings:
        if (self.webhook is None) == (self.command is None):
            raise ValueError('give exactly one of webhook = "..." or command = ["..."]')
        if (self.webhook is None) != (self.secret is None):
            raise ValueError('a webhook needs a secret = "whsec_..." to be signed with, and a command takes none')
        if self.headers and self.webhook is None:
            raise ValueError("headers are those of a webhook, and a command has none")
        return self


class ChannelSettings(BaseModel):
    """Channels for outcomes in addition to the inbox: an Apprise URL (mail, chat, push), or a signed webhook."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    apprise: SecretStr | None = Field(
        default=None, description="an Apprise URL; needs the extra `channels`", examples=["tgram://bot-token/chat-id"]
    )
    webhook: WebUrl | None = Field(
        default=None, description="the address that receives a signed POST", examples=["https://example.com/hook"]
    )
    secret: SigningSecret | None = Field(default=None, description=_SIGNS, examples=_EXAMPLES)
    headers: Headers = Field(
        default_factory=dict,
        description="headers of the webhook; a value may name a secret",
        examples=['{Authorization = "Bearer secret:team-token"}'],
    )

    outcomes: Outcomes = Field(
        default=ALL_OUTCOMES,
        description="the outcomes that it takes, of `succeeded`, `failed` and `expired`; all of them by default",
        examples=['["failed", "expired"]'],
    )

    @model_validator(mode="after")
    def _one_way(self) -> ChannelSettings:
        if (self.apprise is None) == (self.webhook is None):
            raise ValueError('give exactly one of apprise = "..." or webhook = "..."')
        if (self.webhook is None) != (self.secret is None):
            raise ValueError('a webhook needs a secret = "whsec_..." to be signed with, and an Apprise URL takes none')
        if self.headers and self.webhook is None:
            raise ValueError("headers are those of a webhook, and an Apprise URL has none")
        return self
