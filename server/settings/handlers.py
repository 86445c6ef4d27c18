"""The handlers that the settings name: known before anything else of the application is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

from duetime.scheduler.handlers import Handler, Handlers, Plugin, WebhookOptions
from duetime.server.settings.model import Settings


def load_handlers(
    settings: Settings,
    added: Sequence[Plugin] = (),
    reveal: Callable[[str], str] = str,
    *,
    entry_points: bool = True,
) -> Handlers:
    """Return the built-in and configured handlers and those `added`; raises InvalidSetting if one cannot be loaded.

    With `entry_points` also those of installed packages.
    Output that their modules print goes to stderr: a verb may write JSON to stdout. `reveal` puts the secrets that a
    setting names in their places.
    """
    with redirect_stdout(sys.stderr):
        loaded = Handlers.load(
            settings.handlers, entry_points=entry_points, webhooks=webhook_options(settings, reveal), added=added
        )
    external = external_handlers(settings)
    return loaded.with_external(external).isolated(settings.isolated_actions)


def external_handlers(settings: Settings) -> list[Handler]:
    """Return the actions that the settings declare, whose runs are executed elsewhere."""
    if not settings.external_actions:
        return []
    from duetime.scheduler.handlers.contract.external_action import external_action  # noqa: PLC0415 - few have any

    return [
        external_action(
            name,
            description=found.description,
            payload=found.payload,
            needs=found.needs,
            time_limit=found.time_limit,
            lease=found.lease,
        )
        for name, found in settings.external_actions.items()
    ]


def webhook_options(settings: Settings, reveal: Callable[[str], str] = str) -> WebhookOptions:
    """Return how far the calls of the `webhook` action may reach."""
    secret = settings.webhook_secret
    return WebhookOptions(
        allow_http=settings.webhook_allow_http,
        allow_private=settings.webhook_allow_private,
        allow_hosts=settings.webhook_allow_hosts,
        secret=secret.get_secret_value() if secret is not None else None,
        timeout=settings.webhook_timeout_seconds,
        reveal=reveal,
    )
