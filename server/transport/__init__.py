"""Transports: stdio and streamable HTTP."""
