-- can_admit: what would keep a run from starting now. ARGV from 4: run id, class, key. Returns a shortage, empty without.

filled()
save()
return shortage(class_of(ARGV[5]), ARGV[4], tonumber(ARGV[6]))
