"""How the command line writes what it says: its words, rows and tables."""
