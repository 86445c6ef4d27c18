-- Units of a pool that are kept for a waiting run: holds and promises. Twin: queue/memory/holds.py, which has the rules.
--
-- A pool can give either all heads of a line what they need, or none.
--
--   line:<pool> <tier> <units>@<action>  ZSET  heads of the classes parked there, by key
--   firsts:<pool> <tier>                 ZSET  the first head of each of these lines, by key

local function units_of(class, name)
  for _, need in ipairs(class.needs) do
    if need.pool == name then return need.units end
  end
end

local function line_of(p, class)
  return P .. 'line:' .. p.name .. string.format(' %d %.0f@', class.tier, units_of(class, p.name)) .. class.action
end

local function firsts_in(p, tier) return P .. 'firsts:' .. p.name .. ' ' .. tier end

-- By tier of a pool the first head: its entry and key, false for none; nil when not known. And the run with a hold,
-- with what it was found by.
local LINE, HOLDER = {}, {}

-- Functions by name: one function may use 60 names from outside.
local HOLDS = {}

function HOLDS.join_line(p, class, key, entry)
  local line, firsts = line_of(p, class), firsts_in(p, class.tier)
  p.parks = true
  call('ZADD', line, key, entry)
  local heads = call('ZRANGE', line, 0, 1)
  if heads[1] ~= entry then return end
  if heads[2] then call('ZREM', firsts, heads[2]) end
  call('ZADD', firsts, key, entry)
  LINE[firsts], HOLDER[firsts] = nil, nil
end

function HOLDS.leave_line(p, class, entry)
  local line, firsts = line_of(p, class), firsts_in(p, class.tier)
  call('ZREM', line, entry)
  if call('ZREM', firsts, entry) == 0 then return end
  local first = call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if first[1] then call('ZADD', firsts, first[2], first[1]) end
  LINE[firsts], HOLDER[firsts] = nil, nil
end

local function first_in_line(p, tier)
  if p.parks == nil then p.parks = call('EXISTS', P .. 'sizes:' .. p.name) == 1 end
  if not p.parks then return false end
  local firsts = firsts_in(p, tier)
  if LINE[firsts] == nil then
    local first = call('ZRANGE', firsts, 0, 0, 'WITHSCORES')
    LINE[firsts] = first[1] and {entry = first[1], key = tonumber(first[2])} or false
  end
  return LINE[firsts]
end

-- Whether releases can give a class what it needs of a pool, and a worker can start it.
local function can_use(p, class)
  if not p.limits or units_of(class, p.name) > available_in_time(p, class.tier) then return false end
  return not is_unserved(class.action)
end

-- The first overdue run of the lines of a tier that lacks units it can still get: its id, key and class; else false.
local function first_short_of_units(p, tier, left)
  local firsts, seen = firsts_in(p, tier), 0
  while true do
    local heads = call('ZRANGE', firsts, seen, seen + MAX_BARRED_HEADS_PASSED, 'WITHSCORES')
    if not heads[1] then return false end
    for i = 1, #heads, 2 do
      local key, class = tonumber(heads[i + 1]), class_of_entry(heads[i])
      if key >= WALL then return false end
      if units_of(class, p.name) > left and can_use(p, class) then
        local _, id = parts_of(string.sub(heads[i], 1, string.find(heads[i], '\n', 1, true) - 1))
        return {id = id, key = key, class = class}
      end
    end
    seen = seen + #heads / 2
  end
end

-- The run of a tier with a hold: the first overdue one parked on a pool that lacks units it can still get.
local function holder(p, tier)
  local first = first_in_line(p, tier)
  if not first or first.key >= WALL or not p.limits then return nil end
  local firsts, left, most_left = firsts_in(p, tier), free(p, tier), available_in_time(p, tier)
  local found = HOLDER[firsts]
  if not found or found.left ~= left or found.most_left ~= most_left or found.taker ~= taker then
    local run = left < most_left and first_short_of_units(p, tier, left)
    found = {left = left, most_left = most_left, taker = taker, run = run}
    HOLDER[firsts] = found
  end
  return found.run or nil
end

-- Whether a run goes before another one: between tenants of a tier by turn, else by key.
local function is_ahead(run, key, class)
  local tenant, other = run.class.tenant, class.tenant
  if run.class.tier == class.tier and tenant and other and tenant ~= other then
    return turn_of(class.tier, tenant) < turn_of(class.tier, other)
  end
  return run.key < key
end

-- Whether a tier has earned no start at a pool with holds.
local function earned_none(p, tier) return p.state.owed[tier] < 1 end

-- Whether a hold binds a run: within a tier by key and turn, between tiers by what each has earned here.
local function binds(p, run, key, class)
  local tier, other = run.class.tier, class.tier
  if tier == other then return is_ahead(run, key, class) end
  if earned_none(p, tier) ~= earned_none(p, other) then return earned_none(p, other) end
  return tier < other
end

-- The waiting run for which units are held while it is not parked here, or nil.
local function kept_run(p)
  local run = NOW < p.state.hold_until and read_run(p.state.hold)
  return run and call('ZSCORE', P .. 'q:' .. run.class.name, run.member) and run or nil
end

-- Whether a run that may be admitted would take units from one that is parked elsewhere, or not parked.
local function is_kept_from(p, run, key, class)
  if not p.limits or run.class.tier > class.tier or not is_ahead(run, key, class) then return false end
  if run.class.tier < class.tier and call('HEXISTS', P .. 'parked', run.class.name) == 0 then return false end
  local units = (units_of(class, p.name) or 0) + units_of(run.class, p.name)
  return units > free(p, run.class.tier) and can_use(p, run.class)
end

-- A run whose hold keeps another one from starting, or nil.
local function held_for(p, id, key, class)
  for tier = 1, TIER_COUNT do
    local run = holder(p, tier)
    if run and run.id ~= id and binds(p, run, key, class) then return run end
  end
  local run = kept_run(p)
  return run and run.id ~= id and is_kept_from(p, run, key, class) and run or nil
end

-- Whether units are kept for another run: its class was promised them, or it has a hold.
local function is_held_for_another(p, id, key, class)
  local promised = promised_class(p)
  if promised then return promised ~= class end
  return held_for(p, id, key, class) ~= nil
end

-- Count a start of a tier: each tier with an overdue run parked on a pool earns its share of it.
function HOLDS.count_start(p, tier)
  local owed = {}
  for each = 1, TIER_COUNT do
    local first = first_in_line(p, each)
    local earned = p.state.owed[each] + (first and first.key < WALL and GUARANTEED[each] or 0)
    owed[each] = min(MAX_DISPATCHES_SAVED, max(0, earned - (each == tier and 1 or 0)))
  end
  p.kept.owed, p.state.owed = owed, owed
end

-- Hold units for a run that is not parked here, unless an earlier one has them.
function HOLDS.hold(p, id, key, class, until_then)
  local run = kept_run(p)
  if run and (run.class.tier < class.tier or (run.class.tier == class.tier and run.key < key)) then return end
  set_hold(p, id, until_then)
  set_timer(p.name, until_then)
end

-- Hold units for an overdue run parked on another pool, for a part of the time that it is overdue. A run that had a hold
-- here gets no other one before as long has passed since.
function HOLDS.hold_part(p, id, key, class)
  local length = GUARANTEED[class.tier] * (WALL - key)
  if p.state.hold == id and NOW < p.state.hold_until + length then return end
  HOLDS.hold(p, id, key, class, NOW + length)
end

-- Drop the hold of a run that is not parked here and the promise to its class, unless nil; return whether any was.
function HOLDS.drop(p, id, class)
  local had, was_promised = p.state.hold == id, class and p.state.promised == class.name
  if had then set_hold(p, '', 0) end
  if was_promised then set_promise(p, '', 0) end
  return had or was_promised
end
