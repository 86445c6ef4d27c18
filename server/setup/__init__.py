"""Set-up on a machine: MCP clients, the background service, how `duetime` is invoked."""
