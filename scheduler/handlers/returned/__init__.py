"""Checks of what handlers return, before it is stored."""
