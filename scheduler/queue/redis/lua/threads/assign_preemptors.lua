-- assign_preemptors: waiting runs for which a worker should preempt others. ARGV from 4: worker, how many, first and last tier,
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

-- The late heads of a tier whose actions the worker knows, in their order: to park one changes what the next lacks.
local function late_heads(tier)
  local found = {}
  move_out_unknown(tier)
  for _, lane in ipairs(VIEW.lanes) do
    local heads = call('ZRANGE', P .. 'heads:' .. tier .. lane, 0, MAX_PREEMPTORS - 1, 'WITHSCORES')
    for i = 1, #heads, 2 do
      local head = head_from(heads[i], heads[i + 1], lane)
      if head.key <= before and knows_action(actions, class_of_head(head).action) then found[#found + 1] = head end
    end
  end
  table.sort(found, goes_before)
  return found
end

-- Park the late classes of a tier that lack a pool: they do not wait for a thread.
local function park_short(tier)
  for _, head in ipairs(late_heads(tier)) do
    local class, _, id = class_of_head(head), parts_of(head.member)
    local p, units, why = lacking(class, id, head.key)
    if p then
      drop_candidate(class, head.entry)
      park_behind(p, class, head.key, head.member, units, why)
      VIEW.moved = VIEW.moved + 1
    end
  end
end

-- The runs of a tier that lack only a thread and are late, in their order.
local function late(tier)
  local found = {}
  park_short(tier)
  for _, head in ipairs(late_heads(tier)) do
    local q = P .. 'q:' .. class_of_head(head).name
    local runs = call('ZRANGEBYSCORE', q, '-inf', before, 'WITHSCORES', 'LIMIT', 0, MAX_PREEMPTORS)
    for i = 1, #runs, 2 do found[#found + 1] = {key = tonumber(runs[i + 1]), member = runs[i]} end
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
