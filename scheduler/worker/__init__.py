"""The worker: take a run from the queue, claim it, run its handler, settle the outcome.

The life of an attempt, in order:

1. `broker.DispatchBroker.take`: takes granted runs from the queue, as many as threads are idle
2. `claimer.Claimer.claim`: starts them in the database; a run that cannot be claimed does not run
3. `threads.gate.ThreadGate.line_up`: calls a thread for each, or lets it wait in line
4. `worker.Worker._run_here`: a thread begins
5. `executor.Executor._resolve_handler`: the handler of the action
6. `executor.Executor._start_time_limit`: the watchdog renews the lease, and interrupts at the limit
7. `executor.Executor._check_needs`: a run whose needs are missing waits instead
8. `executor.Executor._call_handler`: the handler returns an outcome, raises, or is interrupted
9. `executor.Executor._verify_result`: a success is compared with what its task expects
10. `executor.Executor._heed_cancel`: a requested cancel stands before every result but a success
11. `completer.BatchCompleter.hand_in`: the result becomes a settlement, with all that follows from it
12. `completer.BatchCompleter._store_group`: settlements are stored in one transaction
13. `worker.Worker._finish`: the queue releases its units, listeners are notified
"""
