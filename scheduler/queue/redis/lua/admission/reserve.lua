-- reserve: lease one run out of turn. ARGV from 4: worker, run id, class, key, created, lease in ms. Returns the token, or
-- '' when the run is leased already or cannot be admitted.

complete()
local again = said()
if again then return again end
local worker, id, class = ARGV[4], ARGV[5], class_of(ARGV[6])
local key, created, lease = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local run = read_run(id)
if (run and run.token) or lacking(class, id, key) then return answer('') end
if run then remove(run) end
local token = new_token()
lease_to(worker, id, class, key, created, token, lease)
store_pools()
pass_wakeup_token()
return answer(token)
