"""The graph of tasks that come after others: what one comes after, and edges that are added and removed."""
