"""Waits for signals, as callers and handlers write them; attempts that end with a wait."""
