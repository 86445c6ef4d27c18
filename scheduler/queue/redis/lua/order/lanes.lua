-- Lanes: the actions that some worker has no handler for, and where the heads of their classes stand. Twins:
-- queue/lanes.py, queue/memory/lanes.py. A lane is '' (the main lane) or '@<action>', the end of the names of its places.
-- A head may still stand in the main lane when its action gets a lane. S.lanes is how many lanes there are.
--
--   lanes        HASH  action -> how many heads stand in its lane
--   lane_checks  ZSET  actions by when to look whether their lane can go

-- The actions of the worker that takes; nil outside a take.
local taker

-- By action, whether it has a lane; nil when not known.
local HAS_LANE = {}

-- Whether a worker that knows `actions` (',<action>,..,' or '*' for all) may take runs of an action.
local function knows_action(actions, action)
  return actions == '*' or action == '' or string.find(actions, ',' .. action .. ',', 1, true) ~= nil
end

local function has_lane(action)
  if S.lanes == 0 or action == '' then return false end
  if HAS_LANE[action] == nil then HAS_LANE[action] = call('HEXISTS', P .. 'lanes', action) == 1 end
  return HAS_LANE[action]
end

local function lane_of(action)
  return has_lane(action) and '@' .. action or ''
end

-- Add the lanes of some actions to a list.
local function add_lanes(found, actions)
  if not actions[1] then return end
  local heads = call('HMGET', P .. 'lanes', unpack(actions))
  for i, action in ipairs(actions) do
    if heads[i] then found[#found + 1] = '@' .. action end
  end
end

-- The lanes of a worker that knows `actions`, the main lane first. Where there are many lanes, its own are looked up.
local function known_lanes(actions)
  local found, own = {''}, {}
  if S.lanes == 0 then return found end
  if actions == '*' or S.lanes <= MAX_LANES_LISTED then
    for _, action in ipairs(call('HKEYS', P .. 'lanes')) do
      if knows_action(actions, action) then found[#found + 1] = '@' .. action end
    end
    return found
  end
  for action in string.gmatch(actions, '[^,]+') do
    own[#own + 1] = action
    if #own == MAX_ARGUMENTS_UNPACKED then
      add_lanes(found, own)
      own = {}
    end
  end
  add_lanes(found, own)
  return found
end

local function drop_lane(action)
  call('HDEL', P .. 'lanes', action)
  call('ZREM', P .. 'lane_checks', action)
  drop_wakeup_tokens('@' .. action)
  S.lanes, HAS_LANE[action] = S.lanes - 1, false
end

-- Begin a take, and remove lanes that are found empty when they are due for a look.
local function begin_take(actions)
  taker = actions
  if S.lanes == 0 then return end
  for _, action in ipairs(call('ZRANGEBYSCORE', P .. 'lane_checks', '-inf', NOW, 'LIMIT', 0, MAX_LANES_CHECKED)) do
    if tonumber(call('HGET', P .. 'lanes', action) or 0) > 0 then
      call('ZADD', P .. 'lane_checks', NOW + LANE_CHECK_INTERVAL_MS, action)
    else
      drop_lane(action)
    end
  end
end

local function split_lane(action)
  if has_lane(action) then return end
  call('HSET', P .. 'lanes', action, 0)
  call('ZADD', P .. 'lane_checks', NOW + LANE_CHECK_INTERVAL_MS, action)
  S.lanes, HAS_LANE[action] = S.lanes + 1, true
end

-- Add a head to a place, in the lane of its action; return that lane.
local function add_to_lane(place, class, key, entry)
  local lane = lane_of(class.action)
  if lane ~= '' then call('HINCRBY', P .. 'lanes', class.action, 1) end
  add_head(place .. lane, class, key, entry)
  return lane
end

-- Remove a head from a place, in the lane of its action or in the main lane; return the lane that it stood in.
local function drop_from_lane(place, class, entry)
  local lane = lane_of(class.action)
  if lane ~= '' and drop_head(place .. lane, class, entry) then
    call('HINCRBY', P .. 'lanes', class.action, -1)
    return lane
  end
  drop_head(place, class, entry)
  return ''
end

-- By action, whether a worker that knows it has reported lately; nil when not known. And what such workers know.
local HAS_WORKER, REPORTED = {}, nil

local function has_worker(action)
  if not REPORTED then
    REPORTED = {}
    for _, raw in ipairs(call('HVALS', P .. 'threads')) do
      local report = cmsgpack.unpack(raw)
      if NOW - report[1] <= THREADS_KNOWN_MS then REPORTED[#REPORTED + 1] = report[11] end
    end
  end
  for _, actions in ipairs(REPORTED) do
    if knows_action(actions, action) then return true end
  end
  return false
end

-- Whether no worker that knows an action takes now or has reported lately (see threads.lua).
local function is_unserved(action)
  if action == '' or (taker and knows_action(taker, action)) then return false end
  if HAS_WORKER[action] == nil then HAS_WORKER[action] = has_worker(action) end
  return not HAS_WORKER[action]
end
