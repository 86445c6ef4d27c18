"""SQL building blocks: batches, record sets, row locks, page cursors."""
