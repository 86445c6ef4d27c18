"""Finds rows by a part of their text: the index of SQLite, and the words that both databases are asked for."""
