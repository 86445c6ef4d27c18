"""The life of a server process: its log lines and its shutdown."""
