-- put: add runs. ARGV from 4: run id, class, key, created, delay of each. Returns how many were new.

filled()
local again = said()
if again then return again end

local entries, ids, seen = {}, {}, {}
for i = 4, #ARGV, 5 do
  if not seen[ARGV[i]] then
    seen[ARGV[i]], ids[#ids + 1] = true, ARGV[i]
    entries[#entries + 1] = {
      id = ARGV[i], class = class_of(ARGV[i + 1]), key = tonumber(ARGV[i + 2]), created = tonumber(ARGV[i + 3]),
      not_before = NOW + tonumber(ARGV[i + 4]),
    }
  end
end
local known = call('HMGET', P .. 'runs', unpack(ids))
local runs, delayed, ready, added, moved = {}, {}, {}, 0, false

local function add(entry)
  entry.member = member_of(entry.created, entry.id)
  runs[#runs + 1] = entry.id
  runs[#runs + 1] = packed_run(entry.class.name, entry.key, entry.created, entry.not_before)
  if entry.not_before > NOW then
    delayed[#delayed + 1] = entry.not_before
    delayed[#delayed + 1] = entry.member
    offer_to('', entry.class.tier) -- any worker makes it ready
  else
    local lane = lane_of(entry.class.action)
    OFFERED[lane] = OFFERED[lane] or {}
    ready[#ready + 1] = entry
  end
  added = added + 1
end

local function enter_added()
  if runs[1] then call('HSET', P .. 'runs', unpack(runs)) end
  if delayed[1] then call('ZADD', P .. 'delayed', unpack(delayed)) end
  enter_all(ready)
  runs, delayed, ready = {}, {}, {}
end

local function keep_aside(run, entry)
  local aside = {entry.class.name, entry.key, entry.created, entry.not_before}
  local kept = packed_lease(run.class, run.key, run.created, run.granted, run.token, run.worker, aside)
  call('HSET', P .. 'runs', entry.id, kept)
end

-- A waiting run whose needs have changed moves to its new class.
local function move(run, entry)
  enter_added()
  remove(run)
  drop_holds(run)
  place(entry.id, entry.class, entry.key, entry.created, entry.not_before)
  moved = true
end

for i, entry in ipairs(entries) do
  if known[i] then
    local run = run_of(entry.id, known[i])
    if run.token then keep_aside(run, entry) elseif run.class ~= entry.class then move(run, entry) end
  else
    add(entry)
  end
end
enter_added()
if moved then
  store_pools()
  pass_wakeup_token()
end
pass_offered_tokens()
return answer(added)
