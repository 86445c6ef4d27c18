-- reap: remove runs whose lease has expired, and release their pools. Returns these runs: the store decides.

filled()
local again = said()
if again then return again end
local reaped = {}
if NOW >= S.calm and S.builder == '' then
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'leases', '-inf', NOW, 'LIMIT', 0, MAX_LEASES_PER_REAP)) do
    local run = read_run(id)
    if run and run.token then
      release_lease(run)
      wake_all(run.class)
      after_lease(run)
      reaped[#reaped + 1] = id
    else
      call('ZREM', P .. 'leases', id)
    end
  end
  store_pools()
end
if reaped[1] then pass_wakeup_token() end
return answer(reaped)
