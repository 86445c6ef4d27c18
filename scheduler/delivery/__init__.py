"""Channels: the ways to deliver an outcome to a user, in addition to the inbox."""

from duetime.scheduler.delivery.channel import Channel, ChannelError
from duetime.scheduler.delivery.registry import ChannelOptions, Channels
from duetime.scheduler.delivery.webhook import WebhookTarget

__all__ = ["Channel", "ChannelError", "ChannelOptions", "Channels", "WebhookTarget"]
