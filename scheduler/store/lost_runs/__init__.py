"""Runs that no worker ends: their deadline has passed, or their worker has died."""
