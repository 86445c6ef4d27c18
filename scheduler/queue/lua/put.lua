-- put: add runs. ARGV from 4: run id, class, key, created, delay of each. Returns how many were new.

filled()
local again = said()
if again then return again end

local entries, ids = {}, {}
for i = 4, #ARGV, 5 do
  ids[#ids + 1] = ARGV[i]
  entries[#entries + 1] = {
    id = ARGV[i], class = class_of(ARGV[i + 1]), key = tonumber(ARGV[i + 2]), created = tonumber(ARGV[i + 3]),
    not_before = NOW + tonumber(ARGV[i + 4]),
  }
end
local known = call('HMGET', P .. 'runs', unpack(ids))
local runs, delayed, ready, added, seen = {}, {}, {}, 0, {}

local function add(entry)
  entry.member = member_of(entry.created, entry.id)
  runs[#runs + 1] = entry.id
  runs[#runs + 1] = packed_run(entry.class.name, entry.key, entry.created, entry.not_before)
  if entry.not_before > NOW then
    delayed[#delayed + 1] = entry.not_before
    delayed[#delayed + 1] = entry.member
  else
    ready[#ready + 1] = entry
  end
  added = added + 1
end

local function keep_aside(entry)
  local run = read_run(entry.id)
  if run.token then
    local aside = {entry.class.name, entry.key, entry.created, entry.not_before}
    local kept = packed_lease(run.class, run.key, run.created, run.token, run.worker, aside)
    call('HSET', P .. 'runs', entry.id, kept)
  end
end

for i, entry in ipairs(entries) do
  if known[i] then
    keep_aside(entry)
  elseif not seen[entry.id] then
    seen[entry.id] = true
    add(entry)
  end
end
if runs[1] then call('HSET', P .. 'runs', unpack(runs)) end
if delayed[1] then call('ZADD', P .. 'delayed', unpack(delayed)) end
enter_all(ready)
if added > 0 then pass_baton() end
return answer(added)
