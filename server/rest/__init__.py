"""The REST API: `/v1` beside MCP, one table of operations that serves, checks and documents."""
