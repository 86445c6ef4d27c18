"""PostgreSQL only: the hot writes, each in one round trip."""
