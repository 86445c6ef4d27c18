-- Leases: the holder of a run, its reservations, and its end. Twin: queue/memory/state.py.

-- Why a pool has too few units: for ever, until a time, or until others release some.
local function shortness(p, units, tier)
  local limits, s = p.limits, p.state
  local ever = units <= most(limits, tier, NOW)
  for i = 1, #limits.steps, 2 do
    if limits.steps[i] > NOW and units <= most(limits, tier, limits.steps[i]) then ever = true end
  end
  if not ever then return 'too_small' end
  if NOW < s.stopped_until then return 'stopped' end
  if NOW < s.open_until or (s.open_until > 0 and s.probe ~= '') then return 'breaker' end
  return 'short'
end

-- Why a pool does not admit a run; nothing when it does.
local function refusal(p, units, class, id, key)
  if not p.limits then return 'unknown' end
  if units > free(p, class.tier) then return shortness(p, units, class.tier) end
  if is_held_for_another(p, id, key, class) then return 'held' end
end

-- The first pool that does not admit a run, the units needed, and why; nothing when all admit it.
local function lacking(class, id, key)
  for _, need in ipairs(class.needs) do
    local p = pool(need.pool)
    local why = refusal(p, need.units, class, id, key)
    if why then return p, need.units, why end
  end
end

-- Whether no release could admit these units, so that a run parked here drops its other first calls.
local function gives_nothing(p, units, tier, why)
  if why == 'short' then return units > in_reach(p, tier) end
  return why ~= 'held'
end

-- Park a class, whose head is in no place, on the pool that its head lacks.
local function park_behind(p, class, key, member, units, why)
  local _, id = parts_of(member)
  park(class, key, member, p)
  if p.limits and why ~= 'held' and why ~= 'too_small' then set_timer(p.name, helped_at(p, units, class.tier)) end
  if key < WALL then claim_first_call(p, units, class.tier, id, key) end
  check_first_call(p)
  -- Smaller runs could overtake this one for ever; once it is overdue, a look gives it first call.
  if units > 1 and key >= WALL and (why == 'short' or why == 'held') then
    call('ZADD', P .. 'patience', key, number(key) .. '\n' .. member .. '\n' .. class.name)
    FIRST.patience = nil
  end
  -- Released units cannot help this pool soon, so the run must not reserve its other pools against later runs.
  local nothing = gives_nothing(p, units, class.tier, why)
  for _, need in ipairs(class.needs) do
    local other = pool(need.pool)
    if nothing and other ~= p then give_up_first_call(other, id, class) end
  end
  for _, need in ipairs(class.needs) do
    if need.pool ~= p.name then wake(pool(need.pool)) end
  end
end

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
