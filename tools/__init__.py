"""MCP tools: their arguments, their calls, their answers."""
