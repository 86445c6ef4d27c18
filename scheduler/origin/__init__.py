"""Origins: the conversations that ask for tasks."""
