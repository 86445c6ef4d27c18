"""Retention: which rows are old enough, what goes with them, and their end."""
