"""Waits for signals, as statements."""
