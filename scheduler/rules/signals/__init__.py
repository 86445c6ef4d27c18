"""Waits for signals, as callers and handlers write them."""
