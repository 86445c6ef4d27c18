-- preemptors: waiting runs for which a worker should preempt others. ARGV from 4: worker, how many, first and last tier,
-- notice in ms, its actions (see lanes.lua), and its threads (see threads.lua) if it reports them. Returns the tiers of these runs.

filled()
if S.builder ~= '' then
  save()
  return {}
end
local again = said()
if again then return again end
local worker, most, first, last = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local before, actions, threads = WALL + tonumber(ARGV[8]), ARGV[9], threads_from(10)
if threads then keep_threads(worker, threads, 0, actions) end
call('ZREMRANGEBYSCORE', P .. 'preemptors', '-inf', NOW)

VIEW.actions, VIEW.lanes = actions, known_lanes(actions)

-- Move classes of unknown actions out of the main lane until none is among the first of a tier.
local function move_out_unknown(tier)
  local moved = true
  while moved and not is_cut_short() do
    moved = false
    local heads = call('ZRANGE', P .. 'heads:' .. tier, 0, MAX_PREEMPTORS - 1, 'WITHSCORES')
    for i = 1, #heads, 2 do
      local head = head_from(heads[i], heads[i + 1], '')
      if not knows_head(head) then
        move_out(head)
        moved = true
      end
    end
  end
end

-- Add the late runs of a class if the worker knows its action.
local function add_late(found, class)
  if not knows_action(actions, class.action) then return end
  local runs = call('ZRANGEBYSCORE', P .. 'q:' .. class.name, '-inf', before, 'WITHSCORES', 'LIMIT', 0, MAX_PREEMPTORS)
  for i = 1, #runs, 2 do found[#found + 1] = {key = tonumber(runs[i + 1]), member = runs[i]} end
end

-- The runs of a tier that lack only a thread and are late, in their order.
local function late(tier)
  local found = {}
  move_out_unknown(tier)
  for _, lane in ipairs(VIEW.lanes) do
    for _, head in ipairs(call('ZRANGE', P .. 'heads:' .. tier .. lane, 0, MAX_PREEMPTORS - 1)) do
      add_late(found, class_of(string.sub(head, string.find(head, '\n', 1, true) + 1)))
    end
  end
  table.sort(found, goes_before)
  return found
end

local tiers = {}
for tier = first, last do
  for _, run in ipairs(late(tier)) do
    local _, id = parts_of(run.member)
    if #tiers < most and call('ZADD', P .. 'preemptors', 'NX', NOW + PREEMPTOR_HOLD_MS, id) == 1 then
      tiers[#tiers + 1] = tier
    end
  end
end
if VIEW.moved > 0 then
  store_pools()
  pass_offered_tokens()
end
return answer(tiers)
