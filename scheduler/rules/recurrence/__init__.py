"""Recurrences: "every second tuesday" becomes a rule, and a rule becomes instants."""
