-- Units of a pool that are kept for a waiting run: holds and promises. Twin: queue/memory/holds.py, which has the rules.
--
--   line:<pool> <tier>  ZSET  heads of the classes parked there, of all sizes, by key

local function units_of(class, name)
  for _, need in ipairs(class.needs) do
    if need.pool == name then return need.units end
  end
end

local function line_of(p, tier) return P .. 'line:' .. p.name .. ' ' .. tier end

-- By line the first head: its entry and key, false for none; nil when not known.
local LINE = {}

-- Functions by name: one function may use 60 names from outside.
local HOLDS = {}

function HOLDS.join_line(p, class, key, entry)
  local line = line_of(p, class.tier)
  call('ZADD', line, key, entry)
  LINE[line], p.parks = nil, true
end

function HOLDS.leave_line(p, class, entry)
  local line = line_of(p, class.tier)
  call('ZREM', line, entry)
  LINE[line] = nil
end

local function first_in_line(p, tier)
  if p.parks == nil then p.parks = call('EXISTS', P .. 'sizes:' .. p.name) == 1 end
  if not p.parks then return false end
  local line = line_of(p, tier)
  if LINE[line] == nil then
    local first = call('ZRANGE', line, 0, 0, 'WITHSCORES')
    LINE[line] = first[1] and {entry = first[1], key = tonumber(first[2])} or false
  end
  return LINE[line]
end

-- Whether releases can give a class what it needs of a pool, and a worker can start it.
local function can_use(p, class)
  if not p.limits or units_of(class, p.name) > available_in_time(p, class.tier) then return false end
  return not is_unserved(class.action)
end

-- A head in a line that lacks units it can still get: its id, key and class.
local function short_of_units(p, entry, key)
  local cut = string.find(entry, '\n', 1, true)
  local class = class_of(string.sub(entry, cut + 1))
  if not p.limits or units_of(class, p.name) <= free(p, class.tier) or not can_use(p, class) then return nil end
  local _, id = parts_of(string.sub(entry, 1, cut - 1))
  return {id = id, key = key, class = class}
end

-- The run of a tier with a hold: the first overdue one parked on a pool that lacks units it can still get.
local function holder(p, tier)
  local first = first_in_line(p, tier)
  if not first or first.key >= WALL then return nil end
  local found = short_of_units(p, first.entry, first.key)
  if found then return found end
  local heads = call('ZRANGE', line_of(p, tier), 1, MAX_BARRED_HEADS_PASSED, 'WITHSCORES')
  for i = 1, #heads, 2 do
    local key = tonumber(heads[i + 1])
    if key >= WALL then return nil end
    found = short_of_units(p, heads[i], key)
    if found then return found end
  end
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

-- Drop the hold of a run that is not parked here, and the promise to its class unless nil; return whether any was.
function HOLDS.drop(p, id, class)
  local had, was_promised = p.state.hold == id, class and p.state.promised == class.name
  if had then set_hold(p, '', 0) end
  if was_promised then set_promise(p, '', 0) end
  return had or was_promised
end
