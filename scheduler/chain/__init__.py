"""Tasks that come after others: the words, and what follows from the end of one."""
