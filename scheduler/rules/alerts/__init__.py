"""Alerts: which state of an installation somebody has to be told of, and when. Pure."""
