"""Visitors of the admin page: their sessions, and the audit of what they read."""
