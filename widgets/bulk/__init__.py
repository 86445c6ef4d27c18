"""Answers of calls that change many tasks: as a list with what became of each, and as words."""
