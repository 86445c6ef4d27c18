-- explain: the place of a run. ARGV[4]: run id. Returns nothing, or [status, runs ahead, worker, not_before], and for a
-- waiting or parked run the number of words of the shortage of the head of its class, these words, and the threads of the
-- workers that know its action (see threads.lua).

filled()
save()
local run = read_run(ARGV[4])
if not run then return {} end
if run.token then
  local ends = tonumber(call('ZSCORE', P .. 'leases', ARGV[4]) or '')
  return {'leased', '0', run.worker, number(ends and ends - S.behind)}
end
local delayed = call('ZSCORE', P .. 'delayed', run.member)
if delayed then return {'delayed', '0', '', number(delayed - S.behind)} end
local ahead = tostring(min(call('ZRANK', P .. 'q:' .. run.class.name, run.member) or 0, MAX_RUNS_COUNTED_AHEAD))
local status, short = 'waiting', {}
if call('HEXISTS', P .. 'parked', run.class.name) == 1 then
  local key, head = head_of(run.class)
  local _, id = parts_of(head)
  status, short = 'parked', shortage(run.class, id, key)
end
local reply = {status, ahead, '', '', tostring(#short)}
for _, words in ipairs({short, known_threads(run.class.action)}) do
  for _, word in ipairs(words) do reply[#reply + 1] = word end
end
return reply
