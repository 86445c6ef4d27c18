-- explain: the place of a run. ARGV[4]: run id. Returns nothing, or [status, runs ahead, worker, not_before], and for a
-- waiting or parked run '1' if other tenants are first or '0', the number of words of the shortage of the head of its
-- class, these words, and the threads of the workers that know its action (see threads.lua).

-- A shortage as words: [pool, why, units, free, capacity, helped_at or '', held_for or '',
-- 1 if units were requested for its class, holders ..].

local function holders(name)
  local found = {}
  local leased = call('ZRANGE', P .. 'leases', 0, MAX_LEASES_SCANNED - 1)
  if not leased[1] then return found end
  for i, raw in ipairs(call('HMGET', P .. 'runs', unpack(leased))) do
    if raw and units_of(class_of(cmsgpack.unpack(raw)[1]), name) then found[#found + 1] = leased[i] end
  end
  return found
end

local function first_of_class(class)
  local _, member = head_of(class)
  local _, id = parts_of(member)
  return id
end

local function shortage(class, id, key)
  local p, units, why = lacking(class, id, key)
  if not p then return {} end
  local reply = {p.name, why, number(units), '0', '0', '', '', 0}
  if p.limits then
    reply[4], reply[5] = number(free(p, class.tier)), number(capacity(p.limits, NOW))
    local promised = promised_class(p)
    reply[8] = promised == class and 1 or 0
    if why == 'held' then
      reply[7] = promised and first_of_class(promised) or held_for(p, id, key, class).id
    elseif why ~= 'too_small' then
      local helped = helped_at(p, units, class.tier)
      reply[6] = number(helped and helped - S.wall_lag)
    end
  end
  for _, holder in ipairs(holders(p.name)) do reply[#reply + 1] = holder end
  return reply
end

-- Whether the head of a class goes in turn while it is the turn of another tenant.
local function others_first(class)
  if not class.tenant then return false end
  local key, member = head_of(class)
  local place = P .. 'heads:' .. class.tier .. lane_of(class.action)
  if not call('ZSCORE', place, member .. '\n' .. class.name) then place = P .. 'heads:' .. class.tier end
  local entry = first_in_ring(place, class.tier)
  local other = entry and class_of_entry(entry)
  if not other or other.tenant == class.tenant then return false end
  return not class.by_deadline or key < WALL or is_barred(class, turn_of(class.tier, other.tenant))
end

filled()
save()
local run = read_run(ARGV[4])
if not run then return {} end
if run.token then
  local ends = tonumber(call('ZSCORE', P .. 'leases', ARGV[4]) or '')
  return {'leased', '0', run.worker, number(ends and ends - S.wall_lag)}
end
local delayed = call('ZSCORE', P .. 'delayed', run.member)
if delayed then return {'delayed', '0', '', number(delayed - S.wall_lag)} end
local ahead = tostring(min(call('ZRANK', P .. 'q:' .. run.class.name, run.member) or 0, MAX_RUNS_COUNTED_AHEAD))
local status, others, short = 'waiting', '0', {}
if call('HEXISTS', P .. 'parked', run.class.name) == 1 then
  local key, head = head_of(run.class)
  local _, id = parts_of(head)
  status, short = 'parked', shortage(run.class, id, key)
elseif others_first(run.class) then
  others = '1'
end
local reply = {status, ahead, '', '', others, tostring(#short)}
for _, words in ipairs({short, known_threads(run.class.action)}) do
  for _, word in ipairs(words) do reply[#reply + 1] = word end
end
return reply
