-- adopt: lease a run that the store records as running, whatever its pools have left. ARGV from 4: worker, run id, class,
-- key, created, token, lease in ms. Returns 1, or 0 when the queue already has it.

filled()
local again = said()
if again then return again end
local worker, id, class = ARGV[4], ARGV[5], class_of(ARGV[6])
local key, created, token, lease = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])
if call('HEXISTS', P .. 'runs', id) == 1 then return answer(0) end
lease_to(worker, id, class, key, created, token, lease)
store_pools()
return answer(1)
