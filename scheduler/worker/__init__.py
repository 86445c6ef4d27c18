"""The worker: take a run from the queue, claim it, run its handler, settle the outcome."""
