"""Signals of the world: events, and addresses by which tasks are started."""
