"""Policies: the numbers that decide the order of runs, as admins change them at run time."""
