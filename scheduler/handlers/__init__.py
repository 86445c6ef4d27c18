"""Handlers: the code that a task runs, how it is declared, found and run."""

from duetime.scheduler.handlers.context import Context, Link
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.decorator import handler
from duetime.scheduler.handlers.invocation import explain, run_handler
from duetime.scheduler.handlers.registry import Handlers, Plugin
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.handlers.watch import WatchCheck, watch, watch_check
from duetime.scheduler.handlers.webhook import webhook
from duetime.scheduler.outbound.url_policy import WebhookOptions

__all__ = [
    "Context",
    "Handler",
    "Handlers",
    "Link",
    "Plugin",
    "WatchCheck",
    "WebhookOptions",
    "explain",
    "handler",
    "reminder",
    "run_handler",
    "watch",
    "watch_check",
    "webhook",
]
