"""Readers: tasks, chains, outcomes and what happened, each class for one tenant unless an operator asks for others."""
