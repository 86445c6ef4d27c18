"""Payloads of handlers: how their models read JSON, and what of it is stored."""
