"""Everyday times and recurrences of six languages, one module each, and how they become English phrases."""
