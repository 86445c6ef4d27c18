-- can_admit: the shortage that keeps a run from starting now. ARGV from 4: run id, class, key. Returns it, or empty.

filled()
save()
return shortage(class_of(ARGV[5]), ARGV[4], tonumber(ARGV[6]))
