"""Recurrences in plain words, part by part."""
