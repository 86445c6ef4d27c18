"""Metrics for Prometheus: docs/metrics.md describes each one, and a test compares."""
