"""Limits: pools, their windows, admission, and the circuit breaker."""
