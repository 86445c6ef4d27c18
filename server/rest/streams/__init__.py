"""Streams of server-sent events: changes of tasks, and the log of a run."""
