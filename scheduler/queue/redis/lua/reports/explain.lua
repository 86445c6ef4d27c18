-- explain: the place of a run. ARGV[4]: run id. Returns nothing, or [status, runs ahead, worker, not_before], and for a
-- waiting or parked run '1' if other tenants are first or '0', the number of words of the shortage of the head of its
-- class, these words, and the threads of the workers that know its action (see threads.lua).

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
