"""Reasons why a run waits, by what it waits for."""
