-- explain: the place of a run. ARGV[4]: run id. Returns nothing, or [status, runs ahead, worker, not_before] and for a
-- parked run the shortage of the head of its class, for a waiting one the threads of the workers (see threads.lua).

filled()
save()
local run = read_run(ARGV[4])
if not run then return {} end
if run.token then return {'leased', '0', run.worker, ''} end
local delayed = call('ZSCORE', P .. 'delayed', run.member)
if delayed then return {'delayed', '0', '', number(delayed - S.behind)} end
local ahead = tostring(min(call('ZRANK', P .. 'q:' .. run.class.name, run.member) or 0, MAX_RUNS_COUNTED_AHEAD))
if call('HEXISTS', P .. 'parked', run.class.name) == 0 then return {'waiting', ahead, '', '', unpack(known_threads(run.class.action))} end
local key, head = head_of(run.class)
local _, id = parts_of(head)
return {'parked', ahead, '', '', unpack(shortage(run.class, id, key))}
