"""The operations of administrators: what an installation keeps of itself, and its rules."""
