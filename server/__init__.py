"""Processes and their doors: MCP over stdio and HTTP, the command line, settings."""
