"""The Python API: the scheduler of a program, whose arguments are checked as those of the tools are."""
