"""Connections: opening SQLite and PostgreSQL, their settings, and the database clock."""
