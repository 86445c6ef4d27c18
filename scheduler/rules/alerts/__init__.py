"""Alerts: the states of an installation that need a notification, and when. Pure."""
