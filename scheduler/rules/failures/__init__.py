"""The rules of failures: which ends count as one, and what `on_failure` lets follow."""
