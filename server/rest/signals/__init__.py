"""The operations by which the world lets tasks go: events."""
