"""Everything that works without MCP: the service, the loops, the ports and the rules."""
