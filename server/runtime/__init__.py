"""The life of a server process: its log lines, its watch of the events and its shutdown."""
