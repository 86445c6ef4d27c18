-- give_back: return a leased run unstarted. ARGV from 4: run id, token, delay. Returns 1, or 0 when the lease is lost.

complete()
local again = said()
if again then return again end
local run, not_before = held(ARGV[4], ARGV[5]), NOW + tonumber(ARGV[6])
if not run then return answer(0) end
local unused = {}
for _, need in ipairs(run.class.needs) do unused[need.pool] = 0 end
release_lease(run, unused)
wake_all(run.class)
run.again = run.again or {run.class.name, run.key, run.created, 0} -- it may have a newer place already
run.again[4] = max(run.again[4], not_before)
after_lease(run)
store_pools()
pass_wakeup_token()
return answer(1)
