-- Classes of runs: their heads, parking on a pool that the head lacks, unparking. Twin: queue/memory/classes.py.

local function place_of(tier, lane) return lane == '' and tier or tier .. lane end

-- By tier and lane, the best head that is not parked, false for none; nil when not known. See head_from. TOP[-tier] is
-- the best in all lanes of actions that the taking worker knows.
local TOP = {}

-- A head as a take compares it, false for none.
local function head_from(entry, key, lane)
  if not entry then return false end
  local cut = string.find(entry, '\n', 1, true)
  return {key = tonumber(key), member = string.sub(entry, 1, cut - 1), entry = entry, cut = cut, lane = lane}
end

local function offer(class, key, member)
  local entry = member .. '\n' .. class.name
  local lane = add_to_lane(P .. 'heads:' .. class.tier, class, key, entry)
  local place = place_of(class.tier, lane)
  local top = TOP[place]
  if top ~= nil then
    local head = head_from(entry, key, lane)
    if not top or goes_before(head, top) then TOP[place] = head end
    if lane ~= '' then TOP[-class.tier] = nil end
  end
  offer_to(lane, class.tier)
end

local function size_of(class, name)
  return class.tier .. ' ' .. string.format('%.0f', units_of(class, name))
end

local function leave_size(name, class, entry)
  local size = size_of(class, name)
  local place = P .. 'behind:' .. name .. ' ' .. size
  local lane = drop_from_lane(place, class, entry)
  HOLDS.leave_line({name = name}, class, entry)
  if call('EXISTS', place .. lane) == 0 then call('ZREM', P .. 'sizes:' .. name, size .. lane) end
end

-- Remove a head from the candidates.
local function drop_candidate(class, entry)
  local lane = drop_from_lane(P .. 'heads:' .. class.tier, class, entry)
  TOP[place_of(class.tier, lane)], TOP[-class.tier] = nil, lane == '' and TOP[-class.tier] or nil
end

-- Remove the head of a class from the candidates, or from the pool that the class is parked on.
local function withdraw(class, member)
  local entry = member .. '\n' .. class.name
  local name = class.needs[1] and call('HGET', P .. 'parked', class.name)
  if name then
    call('HDEL', P .. 'parked', class.name)
    leave_size(name, class, entry)
  else
    drop_candidate(class, entry)
  end
end

-- Make a class with a changed head a candidate again, parked or not. Its head was (key, member), or nil.
local function look_again(class, key, member)
  local key_now, member_now = head_of(class)
  if key_now == key and member_now == member then return end
  if member then withdraw(class, member) end
  if member_now then offer(class, key_now, member_now) end
end

-- Add runs {class, key, member} to their classes.
local function enter_all(runs)
  local by_class, order = {}, {}
  for _, run in ipairs(runs) do
    local list = by_class[run.class]
    if not list then
      list = {}
      by_class[run.class], order[#order + 1] = list, run.class
      enter_turns(run.class)
    end
    list[#list + 1] = run.key
    list[#list + 1] = run.member
  end
  for _, class in ipairs(order) do
    local key, member = head_of(class)
    local added = call('ZADD', P .. 'q:' .. class.name, unpack(by_class[class]))
    S.ready[class.tier] = S.ready[class.tier] + added
    look_again(class, key, member)
  end
end

-- Remove a run from its class, parked or not.
local function leave_class(run)
  local key, member = head_of(run.class)
  if call('ZREM', P .. 'q:' .. run.class.name, run.member) == 1 then
    S.ready[run.class.tier] = S.ready[run.class.tier] - 1
    look_again(run.class, key, member)
  end
end

-- Add a run to its class, or to the delayed runs until its time.
local function place(id, class, key, created, not_before)
  local member = member_of(created, id)
  call('HSET', P .. 'runs', id, packed_run(class.name, key, created, not_before))
  if not_before > NOW then
    call('ZADD', P .. 'delayed', not_before, member)
    offer_to('', class.tier) -- any worker makes it ready
  else
    enter_all({{class = class, key = key, member = member}})
  end
end

local function park(class, key, member, p)
  local name = p.name
  local size = size_of(class, name)
  keep(p)
  call('HSET', P .. 'parked', class.name, name)
  local lane = add_to_lane(P .. 'behind:' .. name .. ' ' .. size, class, key, member .. '\n' .. class.name)
  call('ZADD', P .. 'sizes:' .. name, class.tier * SIZE_SCORES_PER_TIER + units_of(class, name), size .. lane)
  HOLDS.join_line(p, class, key, member .. '\n' .. class.name)
end

-- Make a parked class a candidate, unless units are kept for another run.
local function unpark(p, entry, key, even_if_held)
  local cut = string.find(entry, '\n', 1, true)
  local member, class = string.sub(entry, 1, cut - 1), class_of(string.sub(entry, cut + 1))
  local _, id = parts_of(member)
  key = tonumber(key)
  if not even_if_held then
    if is_held_for_another(p, id, key, class) then return end
    -- A worker that does not know its action may be the first to look.
    if class.action ~= '' and key < WALL then HOLDS.hold(p, id, key, class, NOW + HOLD_CHECK_INTERVAL_MS) end
  end
  call('HDEL', P .. 'parked', class.name)
  leave_size(p.name, class, entry)
  offer(class, key, member)
end

-- The class of a head if its action has a lane of its own, with its key and member.
local function class_apart(entry, key)
  if not entry then return nil end
  local cut = string.find(entry, '\n', 1, true)
  local class = class_of(string.sub(entry, cut + 1))
  if has_lane(class.action) then return class, tonumber(key), string.sub(entry, 1, cut - 1) end
end

-- The heads of a size that a release helps first: that with the smallest key, barred ones apart, and the one in turn.
local function firsts_of(place, size)
  local entry, key = first_in_ring(place, tonumber(string.sub(size, 1, 1)))
  local best, best_key = first_by_key(place, entry and class_of_entry(entry), '*')
  return best, best_key, entry, key
end

-- Park classes in the lane of their action until a class of the main lane is next in a size: no class keeps others
-- parked that are of actions which more workers know.
local function separate(p, size)
  if string.find(size, '@', 1, true) then return end
  local place = P .. 'behind:' .. p.name .. ' ' .. size
  for _ = 1, MAX_CLASSES_PER_TAKE do
    local best, best_key, entry, entry_key = firsts_of(place, size)
    local class, key, member = class_apart(best, best_key)
    if not class then class, key, member = class_apart(entry, entry_key) end
    if not class then return end
    leave_size(p.name, class, member .. '\n' .. class.name)
    park(class, key, member, p)
  end
  set_timer(p.name, NOW + 1)
end

-- Make two classes of a size candidates: that with the smallest key, and that of the tenant whose turn it is.
local function unpark_best(p, size, even_if_held)
  local place = P .. 'behind:' .. p.name .. ' ' .. size
  if even_if_held then
    local best = call('ZRANGE', place, 0, 0, 'WITHSCORES')
    if best[1] then unpark(p, best[1], best[2], true) end
    return
  end
  local best, best_key, entry, key = firsts_of(place, size)
  if best then unpark(p, best, best_key) end
  if entry and entry ~= best then unpark(p, entry, key) end
end

-- The scores of the sizes that a tier may have of a pool now: from one unit to the whole units that are free.
local function fitting(p, tier)
  return tier * SIZE_SCORES_PER_TIER, tier * SIZE_SCORES_PER_TIER + max(0, min(SIZE_SCORES_PER_TIER - 1, floor(free(p, tier))))
end

-- Look again later at a pool with a hold: it counts while a worker reports that knows the run's action.
local function check_holds(p)
  for tier = 1, TIER_COUNT do
    local run = holder(p, tier)
    if run and run.class.action ~= '' then return set_timer(p.name, NOW + HOLD_CHECK_INTERVAL_MS) end
  end
end

-- The largest sizes of a tier that fit now.
local function largest(p, tier)
  local from, to = fitting(p, tier)
  return call('ZREVRANGEBYSCORE', P .. 'sizes:' .. p.name, to, from, 'LIMIT', 0, MAX_SIZES_PER_WAKE)
end

-- Unpark the class that was promised units of a pool, if it is parked here and may be admitted now.
local function unpark_promised(p)
  local class = promised_class(p)
  if not class or call('HGET', P .. 'parked', class.name) ~= p.name then return end
  local key, member = head_of(class)
  if units_of(class, p.name) <= free(p, class.tier) then unpark(p, member .. '\n' .. class.name, key, true) end
end

-- Unpark the best class of each size that fits, tier by tier, the largest sizes first.
local function wake(p)
  if not p.limits or call('EXISTS', P .. 'sizes:' .. p.name) == 0 then return end
  unpark_promised(p)
  for tier = 1, TIER_COUNT do
    for _, size in ipairs(S.lanes > 0 and largest(p, tier) or {}) do separate(p, size) end
    for _, size in ipairs(largest(p, tier)) do unpark_best(p, size) end
  end
  check_holds(p)
end

-- Set the timer for when time may help the classes still parked, and those parked before a hold or promise ends.
local function set_timer_for_rest(p)
  if not p.limits then return end
  local sizes, at = P .. 'sizes:' .. p.name, nil
  for _, ends in ipairs({p.state.hold_until, p.state.promised_until}) do
    if NOW < ends then at = earlier(at, ends) end
  end
  for tier = 1, TIER_COUNT do
    local from, to = fitting(p, tier)
    if call('ZCOUNT', sizes, from, to) > 0 then at = earlier(at, NOW + THROTTLE_CHECK_INTERVAL_MS) end
    local above = string.format('(%.0f', to)
    local larger = call('ZRANGEBYSCORE', sizes, above, (tier + 1) * SIZE_SCORES_PER_TIER - 1, 'WITHSCORES', 'LIMIT', 0, 1)
    local helped = larger[2] and helped_at(p, larger[2] - from, tier)
    if helped then at = earlier(at, max(NOW + 1, helped)) end
  end
  set_timer(p.name, at)
end

-- A run that is removed or moved drops its holds. A promise stays while another run of its class is late, and holds while
-- the run itself is overdue.
local function drop_holds(run, is_overdue)
  local key = run.class.needs[1] and head_of(run.class)
  local is_late = key and key <= WALL + YIELD_NOTICE_MS
  for _, need in ipairs(run.class.needs) do
    local p = pool(need.pool)
    if HOLDS.drop(p, not is_overdue and run.id, not is_late and run.class) or run.key < WALL then wake(p) end
    forget_if_idle(p)
  end
end
