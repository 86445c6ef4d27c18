"""The arguments of tools: their names, types and schemas, and filters of lists."""
