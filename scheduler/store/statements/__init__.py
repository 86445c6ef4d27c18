"""Statements: one module for each write and read, portable over SQLite and PostgreSQL."""
