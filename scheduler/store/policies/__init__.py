"""Versions of the policy."""
