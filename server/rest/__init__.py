"""The REST API: `/v1` next to MCP, one table of operations that serves, checks and documents."""
