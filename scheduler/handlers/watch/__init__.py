"""The action `watch`: looks at a value at an interval until a condition holds, it changes, or the time is over."""

from duetime.scheduler.handlers.watch.check import WatchCheck, watch_check
from duetime.scheduler.handlers.watch.handler import watch

__all__ = ["WatchCheck", "watch", "watch_check"]
