-- cancel: remove a waiting run; a leased run only drops the entry kept aside for it. ARGV[4]: run id.
-- Returns removed, leased or absent.

filled()
local again = said()
if again then return again end
local run = read_run(ARGV[4])
if not run then return answer('absent') end
if run.token then
  call('HSET', P .. 'runs', run.id, packed_lease(run.class, run.key, run.created, run.granted, run.token, run.worker))
  return answer('leased')
end
remove(run)
drop_holds(run)
store_pools()
pass_wakeup_token()
return answer('removed')
