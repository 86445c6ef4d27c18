-- The threads of all workers, and the worker that preempts for a run. Twin: queue/memory/threads.py.
--
--   threads      HASH  worker -> its last thread report (msgpack), its time, and the actions that it knows
--   preemptors   ZSET  run ids by until when they are assigned to one preempting worker

-- The thread report of a caller, its arguments from `at` on: total, busy, preempted, the headroom of each tier, lost,
-- withheld.
local function threads_from(at)
  if not ARGV[at] then return nil end
  local headroom = {}
  for tier = 1, TIER_COUNT do headroom[tier] = tonumber(ARGV[at + 2 + tier]) end
  return {
    total = tonumber(ARGV[at]), busy = tonumber(ARGV[at + 1]), preempted = tonumber(ARGV[at + 2]), headroom = headroom,
    lost = tonumber(ARGV[at + 8]), withheld = tonumber(ARGV[at + 9])
  }
end

local function keep_threads(worker, t, granted, actions)
  local busy = min(t.busy + granted, t.total)
  local h = t.headroom
  local known = {NOW, t.total, busy, t.preempted, h[1], h[2], h[3], h[4], h[5], t.lost, actions, t.withheld}
  local packed = cmsgpack.pack(known)
  call('HSET', P .. 'threads', worker, packed)
end

-- Recent reports of workers that know an action: worker, total, busy, preempted, headroom by tier, lost and
-- withheld; older reports are removed.
local function known_threads(action)
  local found = {}
  local all = call('HGETALL', P .. 'threads')
  for i = 1, #all, 2 do
    local v = cmsgpack.unpack(all[i + 1])
    if NOW - v[1] > THREADS_KNOWN_MS then
      call('HDEL', P .. 'threads', all[i])
    elseif knows_action(v[11], action) then
      found[#found + 1] = all[i]
      for j = 2, 10 do found[#found + 1] = number(v[j] or 0) end
      found[#found + 1] = number(v[12] or 0)
    end
  end
  return found
end
