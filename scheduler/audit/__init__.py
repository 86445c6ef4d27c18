"""Audit: entries of what callers did."""
