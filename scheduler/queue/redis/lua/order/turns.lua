-- Turns of tenants in one tier: the arithmetic of rules/turns.py. Twin of the rings: queue/memory/turns.py. A ring holds
-- the tenants of one place (heads of a tier, or a size of a pool); its key is that of the place and ':ring'.

-- Turns that this call noted, by tier and tenant, those of starts out of turn, and the tiers whose old turns it removed.
local NOTED, OUT_OF_TURN, CLEANED = {}, {}, {}

local function turn_of(tier, tenant)
  return NOTED[tier .. tenant] or tonumber(call('ZSCORE', P .. 'turns:' .. tier, tenant) or 0)
end

-- Whether a class goes by its deadline, but its tenant may pass a tenant that has waited since `turn` no more.
local function is_barred(class, turn)
  if not class.by_deadline then return false end
  local tier, tenant = class.tier, class.tenant
  return (OUT_OF_TURN[tier .. tenant] or tonumber(call('ZSCORE', P .. 'out_of_turn:' .. tier, tenant) or 0)) > turn
end

local function note_turn(tier, tenant)
  S.turn = max(NOW, S.turn + TURN_STEP_MS)
  call('ZADD', P .. 'turns:' .. tier, S.turn, tenant)
  NOTED[tier .. tenant] = S.turn
end

local function enter_turns(class)
  if class.tenant and not call('ZSCORE', P .. 'turns:' .. class.tier, class.tenant) then
    note_turn(class.tier, class.tenant)
  end
end

local function count_turn(class, out_of_turn)
  local tier, tenant = class.tier, class.tenant
  if not tenant then return end
  note_turn(tier, tenant)
  if out_of_turn then
    call('ZADD', P .. 'out_of_turn:' .. tier, S.turn, tenant)
    OUT_OF_TURN[tier .. tenant] = S.turn
  end
  if CLEANED[tier] then return end
  local long_ago = string.format('(%.17g', NOW - TENANT_FORGOTTEN_AFTER_MS)
  call('ZREMRANGEBYSCORE', P .. 'turns:' .. tier, '-inf', long_ago)
  call('ZREMRANGEBYSCORE', P .. 'out_of_turn:' .. tier, '-inf', long_ago)
  CLEANED[tier] = true
end

local function add_head(place, class, key, entry)
  call('ZADD', place, key, entry)
  if not class.tenant then return end
  local ring = place .. ':ring'
  call('ZADD', ring .. ':' .. class.tenant, key, entry)
  call('ZADD', ring, 'NX', turn_of(class.tier, class.tenant), class.tenant)
end

-- Whether the head stood in that place.
local function drop_head(place, class, entry)
  if call('ZREM', place, entry) == 0 then return false end
  if not class.tenant then return true end
  local ring = place .. ':ring'
  call('ZREM', ring .. ':' .. class.tenant, entry)
  if call('EXISTS', ring .. ':' .. class.tenant) == 0 then call('ZREM', ring, class.tenant) end
  return true
end

-- The tenant whose turn it is and that turn, nil without any. A turn that has passed since it was stored is corrected here.
local function next_tenant(place, tier)
  local ring = place .. ':ring'
  local first = call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  for _ = 1, MAX_TURNS_REFRESHED do
    local turn = first[1] and turn_of(tier, first[1])
    if not turn or turn <= tonumber(first[2]) then break end
    call('ZADD', ring, turn, first[1])
    first = call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  end
  return first[1], tonumber(first[2])
end

-- The best head of the tenant whose turn it is: its entry and its key, or nothing.
local function first_in_ring(place, tier)
  local tenant = next_tenant(place, tier)
  if not tenant then return nil end
  local head = call('ZRANGE', place .. ':ring:' .. tenant, 0, 0, 'WITHSCORES')
  return head[1], tonumber(head[2])
end
