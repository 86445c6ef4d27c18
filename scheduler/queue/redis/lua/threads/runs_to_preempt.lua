-- runs_to_preempt: which runs release units of pools for late ones. ARGV from 4: notice in ms, then the ids of the runs of
-- one worker that are willing to yield. Returns those that should. Twins: queue/memory/preemption.py, and holders_to_ask of
-- rules/preemption.py.
--
--   willing      ZSET  turns (<run id>\n<token>) by when their worker last reported them as willing to yield
--   requested    ZSET  turns that were requested to yield, by when

filled()
if S.builder ~= '' then
  save()
  return {}
end
local again = said()
if again then return again end
local before = WALL + tonumber(ARGV[4])
call('ZREMRANGEBYSCORE', P .. 'willing', '-inf', '(' .. number(NOW - WILLING_KNOWN_MS))
call('ZREMRANGEBYSCORE', P .. 'requested', '-inf', NOW - PROMISE_MS)

local function turn_of_run(run)
  return run.id .. '\n' .. run.token
end

-- The leased runs of these turns that still last.
local function still_held(turns)
  local runs, ids = {}, {}
  for i, turn in ipairs(turns) do ids[i] = string.sub(turn, 1, string.find(turn, '\n', 1, true) - 1) end
  for i, raw in ipairs(ids[1] and call('HMGET', P .. 'runs', unpack(ids)) or {}) do
    local run = raw and run_of(ids[i], raw)
    if run and run.token and turn_of_run(run) == turns[i] then runs[#runs + 1] = run end
  end
  return runs
end

-- The runs of the caller that are leased, and the names of the pools of which they hold units, sorted.
local function report_willing()
  local runs, names, known = {}, {}, {}
  for i = 5, #ARGV do
    local run = read_run(ARGV[i])
    if run and run.token then
      runs[#runs + 1] = run
      call('ZADD', P .. 'willing', NOW, turn_of_run(run))
      for _, need in ipairs(run.class.needs) do
        if not known[need.pool] then names[#names + 1] = {key = 0, member = need.pool} end
        known[need.pool] = true
      end
    end
  end
  table.sort(names, goes_before)
  return runs, names
end

local function holds(run, name)
  return units_of(run.class, name) or 0
end

-- The units of a pool that runs were requested to release and still hold.
local function released(name)
  local units = 0
  for _, run in ipairs(still_held(call('ZRANGE', P .. 'requested', 0, -1))) do units = units + holds(run, name) end
  return units
end

-- The runs less urgent than a tier that would yield, those first that lose least; `missing` says of which pools.
local function holders_below(tier, missing)
  local turns = {}
  for _, turn in ipairs(call('ZRANGE', P .. 'willing', 0, MAX_WILLING_RUNS - 1)) do
    if not call('ZSCORE', P .. 'requested', turn) then turns[#turns + 1] = turn end
  end
  local found = {}
  for _, run in ipairs(still_held(turns)) do
    run.held = 0
    for _, each in ipairs(missing) do run.held = run.held + holds(run, each.pool) end
    if run.class.tier > tier then found[#found + 1] = run end
  end
  table.sort(found, function(a, b)
    if a.class.tier ~= b.class.tier then return a.class.tier > b.class.tier end
    if a.held ~= b.held then return a.held < b.held end
    if a.granted ~= b.granted then return a.granted > b.granted end
    return goes_before({key = 0, member = a.id}, {key = 0, member = b.id})
  end)
  return found
end

local function gain(missing, run)
  local units = 0
  for _, each in ipairs(missing) do units = units + min(max(each.left, 0), holds(run, each.pool)) end
  return units
end

local function is_anything_left(missing)
  for _, each in ipairs(missing) do
    if each.left > 0 then return true end
  end
  return false
end

-- Whether runs hold all that is missing, without one of them.
local function suffice(missing, runs, without)
  for _, each in ipairs(missing) do
    local units = 0
    for _, run in ipairs(runs) do
      if run ~= without then units = units + holds(run, each.pool) end
    end
    if each.units > units then return false end
  end
  return true
end

local function position_of_best(missing, runs)
  local best, most_units = nil, 0
  for i, run in ipairs(runs) do
    local units = gain(missing, run)
    if units > most_units then best, most_units = i, units end
  end
  return best
end

-- holders_to_ask: the fewest runs that hold all that is missing, nil when they hold too little.
local function holders_to_ask(missing, tier)
  local able, chosen = holders_below(tier, missing), {}
  while is_anything_left(missing) do
    local at = position_of_best(missing, able)
    if not at then return nil end
    local run = table.remove(able, at)
    chosen[#chosen + 1] = run
    for _, each in ipairs(missing) do each.left = each.left - holds(run, each.pool) end
  end
  for _, run in ipairs({unpack(chosen)}) do
    if suffice(missing, chosen, run) then
      for i, each in ipairs(chosen) do
        if each == run then table.remove(chosen, i) break end
      end
    end
  end
  return chosen
end

-- Whether another class is being helped, or an overdue run that is as urgent has a hold.
local function is_kept_for_another(p, class, id, key)
  if promised_class(p) then return true end
  local run = held_for(p, id, key, class)
  return run and run.class.tier <= class.tier
end

-- The units that the head of a class lacks, by pool; nil when released units cannot help it.
local function missing_units(class, id, key)
  if is_unserved(class.action) then return nil end
  local found = {}
  for _, need in ipairs(class.needs) do
    local p = pool(need.pool)
    local why = refusal(p, need.units, class, id, key)
    if why then
      if why ~= 'short' or p.limits.kind ~= 'slots' then return nil end
      if gives_nothing(p, need.units, class.tier, why) or is_kept_for_another(p, class, id, key) then return nil end
      local units = need.units - free(p, class.tier) - released(p.name)
      found[#found + 1] = {pool = p.name, units = units, left = units}
    end
  end
  return found[1] and found
end

-- Promise a class what it lacks, and request that runs release it; false when they hold too little.
local function help(head)
  local _, id = parts_of(head.member)
  local missing = missing_units(head.class, id, head.key)
  local asked = missing and holders_to_ask(missing, head.class.tier)
  if not asked then return false end
  for _, run in ipairs(asked) do call('ZADD', P .. 'requested', NOW, turn_of_run(run)) end
  for _, each in ipairs(missing) do
    local p = pool(each.pool)
    set_promise(p, head.class.name, NOW + PROMISE_MS)
    set_timer(p.name, NOW + PROMISE_MS)
  end
  return true
end

-- The late heads that are parked on a pool, the most urgent first.
local function late_heads(p)
  local found = {}
  local from, to = number(SIZE_SCORES_PER_TIER), '(' .. number(5 * SIZE_SCORES_PER_TIER)
  for _, size in ipairs(call('ZRANGEBYSCORE', P .. 'sizes:' .. p.name, from, to, 'LIMIT', 0, MAX_SIZES_PER_WAKE)) do
    local place = P .. 'behind:' .. p.name .. ' ' .. size
    local heads = call('ZRANGEBYSCORE', place, '-inf', number(before), 'WITHSCORES', 'LIMIT', 0, MAX_PREEMPTORS)
    for i = 1, #heads, 2 do
      local cut = string.find(heads[i], '\n', 1, true)
      local class = class_of(string.sub(heads[i], cut + 1))
      found[#found + 1] = {key = tonumber(heads[i + 1]), member = string.sub(heads[i], 1, cut - 1), class = class}
    end
  end
  table.sort(found, function(a, b)
    if a.class.tier ~= b.class.tier then return a.class.tier < b.class.tier end
    return goes_before(a, b)
  end)
  return found
end

-- Request units for the first late class of a pool that others can help, unless one is being helped.
local function help_first(p)
  if promised_class(p) then return end
  for i, head in ipairs(late_heads(p)) do
    if i > MAX_PREEMPTORS or help(head) then return end
  end
end

local runs, names = report_willing()
for _, each in ipairs(names) do help_first(pool(each.member)) end
local asked = {}
for _, run in ipairs(runs) do
  if call('ZSCORE', P .. 'requested', turn_of_run(run)) then asked[#asked + 1] = run.id end
end
store_pools()
return answer(asked)
