"""Dispatch: due runs leave the store, get their order key, and enter the queue."""
