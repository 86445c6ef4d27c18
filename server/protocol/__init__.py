"""The MCP server: tools, resources and subscriptions over one service."""
