"""The dispatch queue on Redis, for many machines. The Lua scripts are in `lua/`."""
