"""The scheduling service: the one way in for tools, command line, REST and Python users."""
