-- take: lease the best runs that can start. ARGV from 4: worker, how many, lease in ms, nonce, its actions (see
-- lanes.lua), 1 to record its looks (see decisions.lua), and its threads (see threads.lua) if it reports them. Returns
-- as JSON [hint in seconds or '', run id, token, class, ..], and at the end the list of looks if they are recorded.

filled()
local worker, wanted, lease, nonce = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local actions, threads = ARGV[8], threads_from(10)
if S.builder ~= '' then
  save()
  return cjson.encode({'0.05'})
end

-- After a lost reply: the same grants again, less those that have ended.
local function granted_before(grants)
  local reply = {'0'}
  for i = 1, #grants, 3 do
    if held(grants[i], grants[i + 1]) then
      for j = i, i + 2 do reply[#reply + 1] = grants[j] end
    end
  end
  return reply
end

local last = nonce ~= '' and call('GET', P .. 'took:' .. worker)
if last then
  last = cmsgpack.unpack(last)
  if last[1] == nonce then
    save()
    return cjson.encode(granted_before(last[2]))
  end
end
local again = nonce == '' and said()
if again then return cjson.encode(again) end

local function first_of(name)
  if FIRST[name] == nil then FIRST[name] = tonumber(call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')[2]) or false end
  return FIRST[name] or nil
end

local function promote()
  local due, ready = call('ZRANGEBYSCORE', P .. 'delayed', '-inf', NOW, 'LIMIT', 0, MAX_PROMOTED_PER_TAKE), {}
  for _, member in ipairs(due) do
    local _, id = parts_of(member)
    ready[#ready + 1] = read_run(id)
  end
  call('ZREM', P .. 'delayed', unpack(due))
  FIRST.delayed = nil
  enter_all(ready)
end

local function look_at_timers()
  for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'timers', '-inf', NOW, 'LIMIT', 0, MAX_TIMERS_PER_TAKE)) do
    call('ZREM', P .. 'timers', name)
    FIRST.timers = nil
    local p = pool(name)
    wake(p)
    set_timer_for_rest(p)
    forget_if_idle(p)
  end
end

local first_delayed, first_timer = first_of('delayed'), first_of('timers')
if first_delayed and first_delayed <= NOW then promote() end
if first_timer and first_timer <= NOW then look_at_timers() end

open_view(actions)
if ARGV[9] == 1 then RECORD.looks = {} end
local grants, looks = {}, 0 -- of each grant three parts: run id, token, class
local runs, leases = {}, {}

local function granted()
  return #grants / 3
end

-- By tier, the best head that may start on the threads that stay idle.
local function best_heads()
  local heads, idle = {}, wanted - granted()
  for tier = 1, idle > 0 and TIER_COUNT or 0 do
    local best = best_of(tier)
    if RECORD.looks then RECORD.heads[tier] = best end
    if best and idle > (threads and threads.headroom[tier] or 0) then heads[tier] = best end
  end
  return heads
end

local function move_on(cursor)
  cursor.at = cursor.at + 2
  cursor.member, cursor.key = cursor.items[cursor.at], tonumber(cursor.items[cursor.at + 1])
end

-- Where tenants take turns, only the run that starts and the next one are read ahead.
local function open(tier, head)
  local class = class_of_head(head)
  drop_candidate(class, head.entry) -- a class under a cursor is not among the heads
  local q = P .. 'q:' .. class.name
  local items = call('ZRANGE', q, 0, head.in_turn and 1 or wanted - granted(), 'WITHSCORES')
  local cursor = {class = class, q = q, items = items, at = -1, gone = {}, lane = head.lane, known = true}
  cursor.in_turn, cursor.out_of_turn = head.in_turn, head.out_of_turn
  move_on(cursor)
  table.insert(CURSORS[tier], cursor)
  return cursor
end

local function close(cursor)
  if cursor.gone[1] then call('ZREM', cursor.q, unpack(cursor.gone)) end
  local list = CURSORS[cursor.class.tier]
  for i, each in ipairs(list) do
    if each == cursor then table.remove(list, i) break end
  end
end

local function put_back(cursor)
  close(cursor)
  if cursor.member then offer(cursor.class, cursor.key, cursor.member) end
end

local function grant(cursor, heads, created, id)
  local class, token = cursor.class, new_token()
  reserve_all(class, id)
  for _, need in ipairs(class.needs) do HOLDS.count_start(pool(need.pool), class.tier) end
  runs[#runs + 1] = id
  runs[#runs + 1] = packed_lease(class, cursor.key, created, NOW, token, worker)
  leases[#leases + 1] = NOW + lease
  leases[#leases + 1] = id
  for _, part in ipairs({id, token, class.name}) do grants[#grants + 1] = part end
  served(heads, class.tier)
  S.ready[class.tier] = S.ready[class.tier] - 1
  cursor.gone[#cursor.gone + 1] = cursor.member
  move_on(cursor)
  count_turn(class, cursor.out_of_turn)
  if cursor.in_turn or not cursor.member then put_back(cursor) end
  wake_all(class)
end

-- The run that starts when `head` is the best of its tier: `head`, unless several tenants wait.
local function chosen(tier, head)
  local tenant = class_of_head(head).tenant
  VIEW.barred = nil
  if not tenant or not has_others(tier, tenant) then return head end
  while CURSORS[tier][1] do put_back(CURSORS[tier][1]) end
  return run_to_start(tier, tenant)
end

local function look(tier, heads)
  local head = chosen(tier, heads[tier])
  if not head then return end
  local cursor = head.items and head or open(tier, head)
  local created, id = parts_of(cursor.member)
  local p, units, why = lacking(cursor.class, id, cursor.key)
  if RECORD.looks then RECORD.note(tier, cursor, wanted - granted(), p, why) end
  if not p then return grant(cursor, heads, created, id) end
  close(cursor)
  park_behind(p, cursor.class, cursor.key, cursor.member, units, why)
end

local heads = best_heads()
local tier = choose(heads)
while tier and looks < MAX_CLASSES_PER_TAKE and not is_cut_short() do
  looks = looks + 1
  look(tier, heads)
  heads = best_heads()
  tier = choose(heads)
end

for each = 1, TIER_COUNT do
  while CURSORS[each][1] do put_back(CURSORS[each][1]) end
end
for _, lane in ipairs(VIEW.lanes) do OFFERED[lane] = nil end
local left = false
for each = 1, TIER_COUNT do
  if best_of(each) then
    left = true
    for _, lane in ipairs(VIEW.lanes) do
      if top_of(each, lane) then offer_to(lane, each) end
    end
  end
end
if threads then keep_threads(worker, threads, granted(), actions) end
if runs[1] then
  call('HSET', P .. 'runs', unpack(runs))
  call('ZADD', P .. 'leases', unpack(leases))
end
store_pools()
if nonce ~= '' then call('SET', P .. 'took:' .. worker, cmsgpack.pack({nonce, grants}), 'PX', ANSWER_TTL_MS) end

-- A worker without grants waits, for `hint` at most; runs that are left, or due soon, go to another worker.
local first = earlier(first_of('delayed'), first_of('timers'))
local hint = first and max(0, (first - NOW) / 1000)
if is_cut_short() or (left and looks == MAX_CLASSES_PER_TAKE) then hint = 0 end
if not left and not grants[1] then
  for _, lane in ipairs(VIEW.lanes) do drop_wakeup_tokens(lane) end
elseif not left and hint and hint < 1 then
  offer_to('', TIER_COUNT)
end
pass_offered_tokens()
local reply = {number(hint)}
for i, part in ipairs(grants) do reply[i + 1] = part end
if RECORD.looks and RECORD.looks[1] then reply[#reply + 1] = RECORD.looks end
if nonce == '' then answer(reply) else save() end
return cjson.encode(reply)
