-- Lanes: the actions that some worker has no handler for, and where the heads of their classes stand. Twins:
-- queue/lanes.py, queue/memory/lanes.py. A lane is '' (the main lane) or '@<action>', the end of the names of its places.
-- S.lanes has for each action with a lane: [action, when a worker without its handler last left runs there, heads there].
-- A head may still stand in the main lane when its action gets a lane.

-- The actions of the worker that takes; nil outside a take.
local taker

-- Whether a worker that knows `actions` (',<action>,..,' or '*' for all) may take runs of an action.
local function knows_action(actions, action)
  return actions == '*' or action == '' or string.find(actions, ',' .. action .. ',', 1, true) ~= nil
end

local function get_lane(action)
  for _, lane in ipairs(S.lanes) do
    if lane[1] == action then return lane end
  end
end

local function lane_of(action)
  return get_lane(action) and '@' .. action or ''
end

-- The lanes of a worker that knows `actions`, the main lane first.
local function known_lanes(actions)
  local found = {''}
  for _, lane in ipairs(S.lanes) do
    if knows_action(actions, lane[1]) then found[#found + 1] = '@' .. lane[1] end
  end
  return found
end

-- Begin a take, and remove lanes that are no longer needed.
local function begin_take(actions)
  taker = actions
  local kept = {}
  for _, lane in ipairs(S.lanes) do
    if lane[3] > 0 and not knows_action(actions, lane[1]) then lane[2] = NOW end
    if lane[3] > 0 or NOW - lane[2] <= LANE_KEPT_MS then
      kept[#kept + 1] = lane
    else
      drop_wakeup_tokens('@' .. lane[1])
    end
  end
  S.lanes = kept
end

local function split_lane(action)
  if not get_lane(action) then table.insert(S.lanes, {action, NOW, 0}) end
end

-- Add a head to a place, in the lane of its action; return that lane.
local function add_to_lane(place, class, key, entry)
  local lane = get_lane(class.action)
  if lane then lane[3] = lane[3] + 1 end
  local name = lane and '@' .. class.action or ''
  add_head(place .. name, class, key, entry)
  return name
end

-- Remove a head from a place, in the lane of its action or in the main lane; return the lane that it stood in.
local function drop_from_lane(place, class, entry)
  local lane = get_lane(class.action)
  if lane and drop_head(place .. '@' .. class.action, class, entry) then
    lane[3] = lane[3] - 1
    return '@' .. class.action
  end
  drop_head(place, class, entry)
  return ''
end

-- Whether no worker that knows an action takes now or has reported lately (see threads.lua).
local function is_unserved(action)
  if action == '' or (taker and knows_action(taker, action)) then return false end
  for _, raw in ipairs(call('HVALS', P .. 'threads')) do
    local report = cmsgpack.unpack(raw)
    if NOW - report[1] <= THREADS_KNOWN_MS and knows_action(report[11], action) then return false end
  end
  return true
end
