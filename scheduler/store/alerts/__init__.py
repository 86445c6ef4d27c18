"""Alerts as they are kept, and turns: work that one process of an installation does at a time."""
