"""Outbound HTTP: the guarded client, its URL policy, and webhook signatures."""
