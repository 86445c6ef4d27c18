-- stats: counts, in pages. ARGV from 4: 'parked' or 'pools', and the cursor of the page.
-- Returns [next cursor, ready by tier x5, delayed, leased, version of the policy] and for each class [tier, pool, runs], or for each used pool
-- [name, capacity, used, spent, free, factor, state, end of that state].

filled()
save()
local page = call('HSCAN', P .. ARGV[4], ARGV[5], 'COUNT', 500)
local reply = {page[1]}
for tier = 1, TIER_COUNT do reply[tier + 1] = S.ready[tier] end
reply[7], reply[8] = call('ZCARD', P .. 'delayed'), call('ZCARD', P .. 'leases')
reply[9] = S.policy and S.policy[1] or 0

local function add(...)
  for _, part in ipairs({...}) do reply[#reply + 1] = part end
end

-- When a pool without capacity will have some.
local function opens(limits)
  for i = 1, #limits.steps, 2 do
    if limits.steps[i] > NOW and limits.steps[i + 1] > 0 then return limits.steps[i] end
  end
end

local function pool_state(limits, s)
  if s.open_until > 0 then
    if NOW < s.open_until then return 'tripped', s.open_until end
    return 'probing'
  end
  if NOW < s.stopped_until then return 'stopped', s.stopped_until end
  if capacity(limits, NOW) <= 0 then return 'closed', opens(limits) end
  return 'admitting'
end

local function count_class(name, pool_name)
  add(string.sub(name, 1, 1), pool_name, call('ZCARD', P .. 'q:' .. name))
end

local function count_pool(name)
  local p = pool(name)
  if not p.limits or is_idle(p) then return end
  local s = p.state
  local whole, left = capacity(p.limits, NOW), free(p, 1)
  local state, ends = pool_state(p.limits, s)
  add(name, number(whole), number(taken(p.limits, s)), number(s.spent), number(left), number(s.factor), state, number(ends and ends - S.wall_lag))
end

for i = 1, #page[2], 2 do
  if ARGV[4] == 'parked' then count_class(page[2][i], page[2][i + 1]) else count_pool(page[2][i]) end
end
return reply
