"""Channels: the ways to tell a user an outcome, beside the inbox."""

from duetime.scheduler.delivery.channel import Channel, ChannelError
from duetime.scheduler.delivery.registry import ChannelOptions, Channels
from duetime.scheduler.delivery.webhook import WebhookTarget

__all__ = ["Channel", "ChannelError", "ChannelOptions", "Channels", "WebhookTarget"]
