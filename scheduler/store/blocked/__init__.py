"""Runs that miss what they need and are not due: whose turn it is to be checked again, and what a check found."""
