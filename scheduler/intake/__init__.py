"""Intake: turn the arguments of a call into a validated plan, before anything is stored."""
