-- known_threads: recent thread reports. Returns for each worker [worker, total, busy, preempted, headroom by tier x5,
-- lost, withheld].

filled()
save()
return known_threads('')
