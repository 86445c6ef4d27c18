"""Signals, as they are kept: sent ones, and waits that are over."""
