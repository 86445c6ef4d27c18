-- Pools, and the arithmetic of rules/limits/admission.py, number by number. Twin: queue/memory/pools.py.
--   limits: [kind, capacity, refill, headroom, failures, error_rate, samples, cooldown, latency, steps, resets, window,
--            window_units]
--   pools:  [at, used, spent, level, factor, cut_at, good, bad, stopped_until, open_until, trips, probe, failing, errors,
--            seen, hold, hold_until, log, owed, promised, promised_until]; the last two only while units are promised
-- A state is stored only when it changes; a reader gets a copy advanced to now. A pool without limits of its own has
-- those of its template ('key:*' of 'key:customer-42'). An undeclared pool is stored while it is in use: without any
-- limits this means its reservations, and the classes parked on it.

local floor, max, min, ceil = math.floor, math.max, math.min, math.ceil
local POOLS = {}

-- The smallest scores of sets that were read, false for none; nil when not known.
local FIRST = {}
local LIMITS = {}

-- Steps in queue time.
local function steps_from(steps)
  local found = {}
  for i = 1, #steps, 2 do found[i], found[i + 1] = steps[i] + S.wall_lag, steps[i + 1] end
  return found
end

-- Resets in queue time; a window that has ended once stays ended after the clock is set back.
local function resets_from(resets)
  local found = {}
  for i, at in ipairs(resets) do found[i] = at + (at <= S.shown and S.wall_lag_then or S.wall_lag) end
  return found
end

local function limits_from(v)
  local moved = S.wall_lag ~= 0
  return {
    kind = v[1], capacity = v[2], refill = v[3], headroom = v[4], failures = v[5], error_rate = v[6], samples = v[7],
    cooldown = v[8], latency = v[9], steps = moved and steps_from(v[10]) or v[10],
    resets = moved and resets_from(v[11]) or v[11], slides = v[1] == 'rate' and v[12] > 0, window = v[12],
    window_units = v[13],
  }
end

local function limits_of(name)
  local found = LIMITS[name]
  if found == nil then
    local raw = call('HGET', P .. 'limits', name)
    local fields = raw and cmsgpack.unpack(raw) or DEFAULT_LIMITS[name]
    found = fields and limits_from(fields) or false
    LIMITS[name] = found
  end
  return found
end

local function template_of(name)
  local colon = string.find(name, ':', 1, true)
  return colon and string.sub(name, 1, colon) .. '*' or nil
end

local function unpacked_state(raw)
  local v = cmsgpack.unpack(raw)
  return {
    at = v[1], used = v[2], spent = v[3], level = v[4], factor = v[5], cut_at = v[6], good = v[7], bad = v[8],
    stopped_until = v[9], open_until = v[10], trips = v[11], probe = v[12], failing = v[13], errors = v[14],
    seen = v[15], hold = v[16], hold_until = v[17], log = v[18], started = log_total(v[18]), owed = v[19],
    promised = v[20] or '', promised_until = v[21] or 0,
  }
end

local function packed_state(s)
  local fields = {
    s.at, s.used, s.spent, s.level, s.factor, s.cut_at, s.good, s.bad, s.stopped_until, s.open_until, s.trips, s.probe,
    s.failing, s.errors, s.seen, s.hold, s.hold_until, s.log, s.owed,
  }
  if s.promised ~= '' then fields[20], fields[21] = s.promised, s.promised_until end
  return cmsgpack.pack(fields)
end

local function new_state(level, spent, used)
  return {
    at = NOW, used = used, spent = spent, level = level, factor = 1, cut_at = 0, good = 0, bad = 0, stopped_until = 0,
    open_until = 0, trips = 0, probe = '', failing = 0, errors = 0, seen = 0, hold = '', hold_until = 0, log = {},
    started = 0, owed = {0, 0, 0, 0, 0}, promised = '', promised_until = 0,
  }
end

local function relog(s, log)
  s.log, s.started = log, log_total(log)
end

local function capacity(limits, at)
  local found = limits.capacity
  for i = 1, #limits.steps, 2 do
    if limits.steps[i] <= at then found = limits.steps[i + 1] end
  end
  return found
end

-- Milliseconds that a bucket was filled at its full rate: the integral of the factor.
local function running(factor, passed)
  local rising = min(passed, (1 - factor) * THROTTLE_RECOVERY_MS)
  return factor * rising + rising * rising / (2 * THROTTLE_RECOVERY_MS) + (passed - rising)
end

-- The size of a throttled bucket: at least one unit fits.
local function bucket(limits, factor)
  return max(min(1, limits.capacity), limits.capacity * factor)
end

local function advanced(limits, s)
  local passed = max(0, NOW - s.at)
  if passed == 0 then return s end
  local copy = {}
  for name, value in pairs(s) do copy[name] = value end
  copy.factor = min(1, s.factor + passed / THROTTLE_RECOVERY_MS)
  if limits.kind == 'rate' then
    copy.level = min(bucket(limits, copy.factor), s.level + limits.refill * running(s.factor, passed))
    copy.level = max(copy.level, min(s.level, limits.capacity))
  end
  for _, reset in ipairs(limits.resets) do
    if s.at < reset and reset <= NOW then copy.spent = max(0, copy.spent - limits.capacity) end
  end
  if s.log[1] and s.log[1] + limits.window <= NOW then relog(copy, log_current(s.log, limits.window)) end
  copy.at = NOW
  return copy
end

-- The pool of this name: `state` as of now, `kept` as stored, `limits` nil when it is undeclared, `own` when it has
-- limits of its own.
local function pool(name)
  local p = POOLS[name]
  if p then return p end
  p = {name = name, limits = limits_of(name) or nil}
  p.own = p.limits ~= nil
  if not p.limits then
    local template = template_of(name)
    p.limits = template and limits_of(template) or nil
  end
  local raw = call('HGET', P .. 'pools', name)
  p.stored = raw and true or false
  p.kept = raw and unpacked_state(raw) or new_state(p.limits and p.limits.capacity or 0, 0, 0)
  p.state = p.limits and advanced(p.limits, p.kept) or p.kept
  POOLS[name] = p
  return p
end

-- The state as of now, to be changed and stored.
local function changing(p)
  p.kept, p.dirty = p.state, true
  return p.state
end

local function is_kept(p)
  return p.stored or p.dirty
end

local function keep(p)
  if not is_kept(p) then p.dirty = true end
end

local function set_hold(p, id, until_then)
  p.kept.hold, p.kept.hold_until, p.state.hold, p.state.hold_until, p.dirty = id, until_then, id, until_then, true
end

local function free_in(limits, s, tier, at)
  if at < s.stopped_until or at < s.open_until or (s.open_until > 0 and s.probe ~= '') then return 0 end
  local whole = capacity(limits, at)
  whole = max(min(1, whole), whole * s.factor)
  local kept = (1 - s.factor) * (tier - 1) / 4
  if tier > HEADROOM_TIER_COUNT then kept = max(kept, limits.headroom) end
  if limits.kind ~= 'rate' then return whole - whole * kept - s.used - s.spent end
  local left = s.level - whole * kept
  if limits.slides then left = min(left, limits.window_units - limits.window_units * kept - s.started) end
  return left
end

local function free(p, tier)
  return free_in(p.limits, p.state, tier, NOW)
end

-- The units that a run of a tier could reserve at a time if nothing else were reserved.
local function most(limits, tier, at)
  return free_in(limits, new_state(limits.capacity, 0, 0), tier, at)
end

-- The units that a run of a tier could reserve now if the state had these fields.
local function free_with(p, tier, fields)
  return free_in(p.limits, setmetatable(fields, {__index = p.state}), tier, NOW)
end

-- The units in use, or of a rate those that cannot be taken now.
local function taken(limits, s)
  if limits.kind ~= 'rate' then return s.used end
  return limits.capacity - (limits.slides and min(s.level, limits.window_units - s.started) or s.level)
end

-- The units that a run of a tier could reserve now if all reserved units came back unused.
local function in_reach(p, tier)
  local s = p.state
  return free_with(p, tier, {used = 0, level = s.level + s.used, started = max(0, s.started - s.used)})
end

-- The units that a run of a tier could reserve once all are released and the bucket is full.
local function available_in_time(p, tier) return free_with(p, tier, {used = 0, level = bucket(p.limits, p.state.factor), started = 0}) end

-- The earlier of two times, either of them nil.
local function earlier(a, b)
  if a and b then return min(a, b) end
  return a or b
end

-- When the bucket holds the units and the window has room for them; nil when the bucket never will.
local function rate_helps_at(p, units, tier)
  local limits, s = p.limits, p.state
  local at = NOW + 1
  local lacking = units - free_with(p, tier, {started = -math.huge})
  if lacking > 0 then
    if limits.refill == 0 then return nil end
    at = max(at, NOW + lacking / (limits.refill * s.factor))
  end
  local crowded = limits.slides and units - free_with(p, tier, {level = math.huge}) or 0
  local left_at = crowded > 0 and log_room_at(s.log, crowded, limits.window)
  return left_at and max(at, left_at) or at
end

local function helped_at(p, units, tier)
  local limits, s = p.limits, p.state
  local blocked = max(s.stopped_until, s.open_until)
  if blocked > NOW then return blocked end
  local at
  for i = 1, #limits.steps, 2 do
    if limits.steps[i] > NOW then at = limits.steps[i] break end
  end
  for _, reset in ipairs(limits.resets) do
    if reset > NOW then at = earlier(at, reset) break end
  end
  if s.factor < 1 then at = earlier(at, NOW + THROTTLE_CHECK_INTERVAL_MS) end
  if limits.kind == 'rate' and units <= free_with(p, tier, {level = bucket(limits, s.factor), started = 0}) then
    at = earlier(at, rate_helps_at(p, units, tier))
  end
  return at and ceil(at)
end

local function reserve(p, id, units)
  local s = changing(p)
  s.used = s.used + units
  if not p.limits then return end
  if p.limits.kind == 'rate' then s.level = s.level - units end
  if p.limits.slides then relog(s, log_added(s.log, s.at, units, p.limits.window)) end
  if s.open_until > 0 and s.open_until <= s.at and s.probe == '' then s.probe = id end
  if s.hold == id then s.hold, s.hold_until = '', 0 end
end

-- The run was granted, and began, at these times.
local function release(p, id, units, actual, granted, began)
  local s = changing(p)
  local used = actual or units
  s.used = s.used - units
  if not p.limits then return end
  if p.limits.kind == 'rate' then s.level = min(p.limits.capacity, s.level + units - used) end
  if p.limits.slides then
    local window = p.limits.window
    local log = log_removed(s.log, granted, units, window)
    relog(s, used > 0 and began + window > s.at and log_added(log, began, used, window) or log)
  end
  if p.limits.kind == 'budget' then s.spent = s.spent + used end
  if s.probe == id then s.probe = '' end
end

-- The pool can be removed without loss: it is unused and has no history to keep.
local function is_idle(p)
  local s = p.state
  if p.own or s.used ~= 0 or NOW < max(s.promised_until, s.hold_until) or call('EXISTS', P .. 'sizes:' .. p.name) == 1 then return false end
  if not p.limits then return true end
  return p.limits.kind == 'slots' and s.factor >= 1 and s.stopped_until <= NOW and s.open_until == 0
end

local function set_timer(name, at)
  if not at then return end
  call('ZADD', P .. 'timers', 'LT', at, name)
  FIRST.timers = nil
end

local function forget_if_idle(p)
  if not is_kept(p) or not is_idle(p) then return end
  if p.stored then call('HDEL', P .. 'pools', p.name) end
  call('ZREM', P .. 'timers', p.name)
  FIRST.timers = nil
  POOLS[p.name] = nil
end

local function store_pools()
  local changed = {}
  for name, p in pairs(POOLS) do
    if p.dirty then
      changed[#changed + 1] = name
      changed[#changed + 1] = packed_state(p.kept)
    end
  end
  for first = 1, #changed, MAX_ARGUMENTS_UNPACKED do
    call('HSET', P .. 'pools', unpack(changed, first, min(#changed, first + MAX_ARGUMENTS_UNPACKED - 1)))
  end
end
