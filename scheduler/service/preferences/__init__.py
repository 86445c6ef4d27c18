"""Preferences: what users set for themselves."""
