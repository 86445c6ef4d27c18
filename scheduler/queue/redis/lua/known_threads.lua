-- known_threads: the threads of the workers that reported them lately. Returns of each [worker, total, busy, preempted,
-- headroom by tier x5, lost].

filled()
save()
return known_threads()
