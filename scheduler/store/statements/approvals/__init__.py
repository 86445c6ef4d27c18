"""Approvals: the questions that are asked before a run goes."""
