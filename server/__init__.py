"""Processes and their entry points: MCP over stdio and HTTP, the command line, settings."""
