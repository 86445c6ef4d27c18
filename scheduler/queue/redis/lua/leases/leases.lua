-- Leases: the holder of a run, its reservations, and its end. Twin: queue/memory/state.py.

local function reserve_all(class, id)
  for _, need in ipairs(class.needs) do
    local p = pool(need.pool)
    reserve(p, id, need.units)
    if p.state.promised == class.name then set_promise(p, '', 0) end
  end
end

local function wake_all(class)
  for _, need in ipairs(class.needs) do wake(pool(need.pool)) end
end

local function new_token()
  S.serial = S.serial + 1
  return S.epoch .. '.' .. string.format('%.0f', S.serial)
end

local function packed_lease(class, key, created, granted, token, worker, again)
  return cmsgpack.pack({class.name, key, created, granted, token, worker, again})
end

-- The leased run that this token holds, or nil.
local function held(id, token)
  local run = read_run(id)
  return run and run.token and run.token == token and run or nil
end

-- Lease a run with all it needs, then unpark what still fits into its pools.
local function lease_to(worker, id, class, key, created, token, lease)
  reserve_all(class, id)
  call('HSET', P .. 'runs', id, packed_lease(class, key, created, NOW, token, worker))
  call('ZADD', P .. 'leases', NOW + lease, id)
  wake_all(class)
end

-- Remove a run from where it waits or is delayed.
local function remove(run)
  call('HDEL', P .. 'runs', run.id)
  if call('ZREM', P .. 'delayed', run.member) == 0 then leave_class(run) end
end

-- Remove a lease and release its pools; `used` gives by pool the units really used, all of them where it is silent. The
-- run began so many ms after its grant.
local function release_lease(run, used, began_after)
  local began = min(NOW, run.granted + (began_after or 0))
  call('HDEL', P .. 'runs', run.id)
  call('ZREM', P .. 'leases', run.id)
  for _, need in ipairs(run.class.needs) do
    release(pool(need.pool), run.id, need.units, used and used[need.pool], run.granted, began)
  end
end

-- After units were released: reset the timer, as time may help sooner, or remove the pool if it is unused.
local function rest(p)
  if p.limits and p.limits.kind == 'rate' then set_timer_for_rest(p) end
  forget_if_idle(p)
end

-- Place the entry that was kept aside during the lease.
local function after_lease(run)
  local again = run.again
  if again then place(run.id, class_of(again[1]), again[2], again[3], again[4]) end
  for _, need in ipairs(run.class.needs) do rest(pool(need.pool)) end
end
