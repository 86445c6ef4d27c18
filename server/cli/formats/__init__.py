"""Formats of the command line: its words, rows and tables."""
