-- The log of starts of a sliding rate: [time, units, ..], the oldest first. Twin: rules/limits/start_log.py.

local function log_slot_of(at, window)
  return math.floor(at * MAX_LOG_SLOTS / window)
end

local function log_total(log)
  local found = 0
  for i = 2, #log, 2 do found = found + log[i] end
  return found
end

-- The log with a start at `at`, which may be older than its last entry.
local function log_added(log, at, units, window)
  local slot, after, found = log_slot_of(at, window), #log, {}
  while after > 0 and log_slot_of(log[after - 1], window) > slot do after = after - 2 end
  local joins = after > 0 and log_slot_of(log[after - 1], window) == slot
  for i = 1, joins and after - 2 or after do found[i] = log[i] end
  if joins then at, units = math.max(log[after - 1], at), log[after] + units end
  found[#found + 1] = at
  found[#found + 1] = units
  for i = after + 1, #log do found[#found + 1] = log[i] end
  return found
end

-- The log without units that started at `at`, if they are still in it.
local function log_removed(log, at, units, window)
  local slot, found = log_slot_of(at, window), {}
  for i = 1, #log, 2 do
    local left = log_slot_of(log[i], window) == slot and math.max(0, log[i + 1] - units) or log[i + 1]
    if left > 0 then found[#found + 1], found[#found + 2] = log[i], left end
  end
  return found
end

-- The log without the entries whose window is over.
local function log_current(log, window)
  local gone, found = 0, {}
  while gone < #log and log[gone + 1] + window <= NOW do gone = gone + 2 end
  for i = gone + 1, #log do found[#found + 1] = log[i] end
  return found
end

-- The log in the slots of another window; empty for none.
local function log_resized(log, window)
  local found = {}
  if window > 0 then
    for i = 1, #log, 2 do found = log_added(found, log[i], log[i + 1], window) end
  end
  return found
end

-- When so many units have left the log, nil when it has fewer.
local function log_room_at(log, units, window)
  local left = 0
  for i = 1, #log, 2 do
    left = left + log[i + 1]
    if left >= units then return log[i] + window end
  end
end
