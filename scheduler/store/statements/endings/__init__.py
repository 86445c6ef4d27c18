"""Ends of attempts: what a worker claimed, the events that follow, and the statements."""
