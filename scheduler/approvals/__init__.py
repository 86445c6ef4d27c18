"""Approvals: a run waits for somebody's yes, which is asked for once and may be answered until a deadline."""
