"""The handlers that the settings name: known before anything else of the application is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

from duetime.scheduler.handlers import Handlers, Plugin, WebhookOptions
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
    return loaded.isolated(settings.isolated_actions)


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
