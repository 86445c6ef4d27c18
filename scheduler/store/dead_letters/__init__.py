"""Dead letters: lists of them, and what closes one."""
