"""Channels: the ways to tell a user an outcome, beside the inbox."""

from duetime.scheduler.channels.port import Channel, ChannelError
from duetime.scheduler.channels.registry import ChannelOptions, Channels
from duetime.scheduler.channels.webhook import WebhookTarget

__all__ = ["Channel", "ChannelError", "ChannelOptions", "Channels", "WebhookTarget"]
