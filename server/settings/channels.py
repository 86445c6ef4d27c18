"""The settings of one channel: its address, its secret, and the outcomes that it takes."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.server.settings.checks import Headers, SigningSecret, WebUrl, comma_separated
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

OutcomeName = Literal["succeeded", "failed", "expired"]
Outcomes = Annotated[tuple[OutcomeName, ...], BeforeValidator(comma_separated), Field(min_length=1)]
ALL_OUTCOMES: Outcomes = ("succeeded", "failed", "expired")
"""The outcomes that users are told: a run that was cancelled or skipped has no message."""


class ChannelSettings(BaseModel):
    """Where outcomes are told beside the inbox: an Apprise URL (mail, chat, push), or a signed webhook."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    apprise: SecretStr | None = Field(
        default=None, description="an Apprise URL; needs `duetime[channels]`", examples=["tgram://bot-token/chat-id"]
    )
    webhook: WebUrl | None = Field(
        default=None, description="the address that receives a signed POST", examples=["https://example.com/hook"]
    )
    secret: SigningSecret | None = Field(
        default=None, description="signs the webhook, as `webhook_secret` does", examples=["whsec_<32 bytes in base64>"]
    )
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
