"""Worker processes of the distributed mode, and the parent that supervises them."""
