-- rescore: change the key of a waiting run. ARGV from 4: run id, key. Returns 1, or 0 when it does not wait.

filled()
local run, key = read_run(ARGV[4]), tonumber(ARGV[5])
if not run or run.token or run.key == key then
  save()
  return run and not run.token and 1 or 0
end
call('HSET', P .. 'runs', run.id, packed_run(run.class.name, key, run.created, run.not_before))
if not call('ZSCORE', P .. 'delayed', run.member) then
  local head_key, head = head_of(run.class)
  call('ZADD', P .. 'q:' .. run.class.name, 'XX', key, run.member)
  look_again(run.class, head_key, head)
  drop_holds(run, key < WALL)
  store_pools()
end
pass_wakeup_token()
save()
return 1
