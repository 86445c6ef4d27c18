"""The dispatch queue in memory, for the embedded mode."""
