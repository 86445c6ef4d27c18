"""Workers elsewhere, which claim runs over MCP, and the runs that they hold."""
