-- The state of the queue in Redis, and the start of every script. Twin: queue/memory/state.py. A script is this file, the
-- parts that scripts.py names for it, then its own file. Redis runs a script as one step but rolls nothing back, so each
-- script checks first and writes after.
--
-- Redis runs the whole script at each call, and half of a short call is the making of its functions. So each file stands
-- in a function inside that of the file before, where Lua finds outer names faster, and functions are local names rather
-- than fields of tables. One function may use 60 names from outside. source.py assembles the files, and writes the numbers
-- of Python in place of their names in capitals.
--
-- Every script: KEYS[1] = {namespace}, the state; KEYS[2] = {namespace}:baton. All other names begin with KEYS[1], whose
--   braces put them into one slot of a cluster. ARGV[1] = milliseconds since 1970, '' for the server's own clock; ARGV[2] and
--   ARGV[3] = where to store the reply, and of which call ('' for a question). Its own arguments are one JSON array,
--   which a client writes many times faster than single ones; below they are ARGV[4] and so on, numbers and texts.
--
-- {ns}                  STRING  the state below (msgpack); without it the queue is lost
-- {ns}:baton            LIST    the wakeup token, at most one: a run may start; one waiting process takes it
-- {ns}:baton:<tier>     LIST    the same for critical and high runs, for processes with idle threads for these only
-- {ns}:baton@<action>, {ns}:baton:<tier>@<action>  LIST  the same in the lane of an action (lanes.lua)
-- {ns}:woken:<client>   LIST    ends the wait of one process
-- {ns}:damage           STRING  the last damage (JSON): when it was found, and what it was
-- and below {ns}:<fill>, where every rebuild has a new <fill>, so that one write empties the queue:
--   runs                HASH    run id -> [class, key, created, not_before], or while leased
--                               [class, key, created, granted at, token, worker, again]
--   q:<class>           ZSET    runs of a class by key, named <created><run id>; a class is
--                               '<tier>|<tenant>|<action>|<pool>=<units>,..'
--   heads:<tier>        ZSET    the head of each class that is not parked, named <created><run id>\n<class>
--   heads:<tier>@<action>       ZSET  the same in the lane of an action
--   turns:<tier>        ZSET    tenants by when they were served last
--   out_of_turn:<tier>  ZSET    tenants by when a run of theirs last went out of turn
--   heads:<tier>:ring   ZSET    tenants that have heads there, by their turn on entry
--   heads:<tier>:ring:<tenant>    ZSET  the heads of one of them
--   parked              HASH    class -> the pool that it is parked on
--   behind:<pool> <tier> <units>  ZSET  heads of the classes parked there
--   behind:<pool> <tier> <units>:ring, :ring:<tenant>  ZSET  as with the heads of a tier
--   behind:<pool> <tier> <units>@<action>, and its rings  ZSET  the same in the lane of an action
--   sizes:<pool>        ZSET    '<tier> <units>', and the lane, parked there, scored tier * SIZE_SCORES_PER_TIER + units
--   line:<pool> <tier> <units>@<action>, firsts:<pool> <tier>  ZSET  the same, and the first of each (in holds.lua)
--   limits              HASH    pool or template -> its limits      pools  HASH  pool -> its state (both in pools.lua)
--   delayed             ZSET    runs by not_before, named <created><run id>
--   leases              ZSET    run ids by the end of their lease   timers ZSET  pools by when time may have helped
--   willing, requested  ZSET    turns by when they were reported and requested (both in runs_to_preempt.lua)
--   took:<worker>       STRING  nonce and grants of the worker's last take
--   said:<client>:<n>   STRING  the answer to a call, for when its reply was lost

local call = redis.call
local given = cjson.decode(ARGV[4])
local ARGV = {ARGV[1], ARGV[2], ARGV[3]}
for i, argument in ipairs(given) do ARGV[3 + i] = argument end
local LOST = 'NOEPOCH the queue is empty and has to be rebuilt'

-- Whether the state exists and cannot be read, or is of an older layout.
local DAMAGED, OLDER = false, false

-- Whether a list is a state as `save` writes it; a state of another layout is not examined. In this order:
--   the layout version; texts: fill, epoch, builder; numbers: build_until, last, calm, serial;
--   lists with a number for each tier: ready, owed, room; numbers, or nothing from an older process of this layout:
--   now, wall_lag, shown, wall_lag_then, turn, emptied, lanes; and the policy (shares.lua), or nothing.
local function is_state(v)
  if type(v) ~= 'table' or type(v[1]) ~= 'number' then return false end
  if v[1] ~= LAYOUT_VERSION then return true end
  for text = 2, 4 do if type(v[text]) ~= 'string' then return false end end
  for number = 5, 8 do if type(v[number]) ~= 'number' then return false end end
  for list = 9, 11 do if type(v[list]) ~= 'table' or #v[list] ~= TIER_COUNT then return false end end
  for number = 12, 18 do if v[number] and type(v[number]) ~= 'number' then return false end end
  local fill, policy = v[2], v[19]
  if policy and not (type(policy) == 'table' and #policy == 2 * TIER_COUNT + 1) then return false end
  return tonumber(fill) ~= nil
end

local function read_state()
  local raw = redis.pcall('GET', KEYS[1])
  if not raw then return nil end
  local read, v = pcall(cmsgpack.unpack, raw)
  if not read or not is_state(v) then
    DAMAGED = true
    return nil
  end
  if v[1] > LAYOUT_VERSION then error('NEWER layout ' .. v[1] .. ', this process knows ' .. LAYOUT_VERSION) end
  if v[1] < LAYOUT_VERSION then
    OLDER = true
    return nil
  end
  local _, fill, epoch, builder, build_until, last, calm, serial, ready, owed, room,
    now, wall_lag, shown, wall_lag_then, turn, emptied, lanes, policy = unpack(v, 1, 19)
  return {
    fill = fill, epoch = epoch, builder = builder, build_until = build_until, last = last, calm = calm, serial = serial,
    ready = ready, owed = owed, room = room, now = now or last, wall_lag = wall_lag or 0, shown = shown or 0,
    wall_lag_then = wall_lag_then or 0, turn = turn, emptied = emptied or 0, lanes = lanes or 0, policy = policy or nil,
  }
end

local S = read_state()

-- GUARANTEED and CEILINGS are the shares by tier: the default ones, unless set_shares.lua has stored others.
for tier = 1, S and S.policy and TIER_COUNT or 0 do
  GUARANTEED[tier], CEILINGS[tier] = S.policy[1 + tier], S.policy[6 + tier]
end
local P = S and KEYS[1] .. ':' .. S.fill .. ':'

local function shown_now()
  local time = call('TIME')
  return time[1] * 1000 + time[2] / 1000
end

-- The queue time when the wall clock shows `wall`: rules/limits/queue_time.py.
local function time_at(wall)
  if not S then return wall end
  local now = wall + S.wall_lag
  if now < S.now - MAX_CLOCK_STEP_MS then
    if S.now - S.wall_lag > S.shown then S.shown, S.wall_lag_then = S.now - S.wall_lag, S.wall_lag end
    S.wall_lag = S.wall_lag + (S.now - now)
  elseif now > S.now then
    S.now = now
  end
  return S.now
end

local NOW = time_at(tonumber(ARGV[1]) or shown_now())
local WALL = S and S.now - S.wall_lag or NOW

-- After a while without calls no worker could have renewed, so no lease counts as expired yet.
local function touch()
  if NOW - S.last > CALM_AFTER_MS then S.calm = NOW + CALM_PERIOD_MS end
  S.last = NOW
end

local function save()
  call('SET', KEYS[1], cmsgpack.pack({
    LAYOUT_VERSION, S.fill, S.epoch, S.builder, S.build_until, S.last, S.calm, S.serial, S.ready, S.owed, S.room,
    S.now, S.wall_lag, S.shown, S.wall_lag_then, S.turn or 0, S.emptied, S.lanes, S.policy,
  }))
end

-- Queue time goes on while the queue is lost.
local function lose()
  if S then save() end
  if DAMAGED then error('the state of the queue cannot be read') end
  error(LOST)
end

-- Continue only in a queue that is complete or being rebuilt.
local function filled()
  if not S or (S.builder ~= '' and S.build_until <= NOW) then lose() end
  touch()
end

-- Continue only in a queue that is complete.
local function complete()
  if S and S.builder ~= '' then lose() end
  filled()
end

-- The stored reply of this very call, when its reply was lost; nil for a new call.
local function said()
  local raw = ARGV[2] ~= '' and call('GET', P .. 'said:' .. ARGV[2])
  local found = raw and cmsgpack.unpack(raw)
  return found and found[1] == ARGV[3] and found[2] or nil
end

local function answer(reply)
  save()
  if ARGV[2] ~= '' then call('SET', P .. 'said:' .. ARGV[2], cmsgpack.pack({ARGV[3], reply}), 'PX', ANSWER_TTL_MS) end
  return reply
end

-- By lane, the tiers in which a run may start that could not before.
local OFFERED = {}

local function offer_to(lane, tier)
  OFFERED[lane] = OFFERED[lane] or {}
  OFFERED[lane][tier] = true
end

local function pass(list)
  if call('LLEN', list) == 0 then call('LPUSH', list, '1') end
end

-- Wake one waiting process in each lane with an offer: one token is enough, as a process that leaves runs behind puts it
-- back. Workers with idle threads for urgent runs only wait for the tokens of those tiers.
local function pass_offered_tokens()
  for lane, tiers in pairs(OFFERED) do
    pass(KEYS[2] .. lane)
    for tier = 1, HEADROOM_TIER_COUNT do
      if tiers[tier] then pass(KEYS[2] .. ':' .. tier .. lane) end
    end
  end
end

-- The same, and wake one process in the main lane in any case.
local function pass_wakeup_token()
  OFFERED[''] = OFFERED[''] or {}
  pass_offered_tokens()
end

-- Remove the tokens of a lane: no run is left to wake a process for.
local function drop_wakeup_tokens(lane)
  call('DEL', KEYS[2] .. lane)
  for tier = 1, HEADROOM_TIER_COUNT do call('DEL', KEYS[2] .. ':' .. tier .. lane) end
end

local function number(n)
  return n and string.format('%.17g', n) or ''
end
