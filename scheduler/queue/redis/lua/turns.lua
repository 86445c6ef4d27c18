-- Turns of tenants in one tier: the arithmetic of rules/turns.py. Twin of the rings: queue/memory/turns.py. A ring holds
-- the tenants of one place (heads of a tier, or a size of a pool); its key is that of the place and ':ring'. One table
-- holds the functions: a script has at most 200 local names.

local TURNS = {}

function TURNS.of(tier, tenant)
  return tonumber(call('ZSCORE', P .. 'turns:' .. tier, tenant) or 0)
end

function TURNS.note(tier, tenant)
  S.turn = max(NOW, S.turn + TURN_STEP_MS)
  call('ZADD', P .. 'turns:' .. tier, S.turn, tenant)
end

function TURNS.entered(class)
  if class.tenant and not call('ZSCORE', P .. 'turns:' .. class.tier, class.tenant) then
    TURNS.note(class.tier, class.tenant)
  end
end

function TURNS.served(class)
  if not class.tenant then return end
  TURNS.note(class.tier, class.tenant)
  call('ZREMRANGEBYSCORE', P .. 'turns:' .. class.tier, '-inf', string.format('(%.17g', NOW - TENANT_FORGOTTEN_AFTER_MS))
end

local function add_head(place, class, key, entry)
  call('ZADD', place, key, entry)
  if not class.tenant then return end
  local ring = place .. ':ring'
  call('ZADD', ring .. ':' .. class.tenant, key, entry)
  if not call('ZSCORE', ring, class.tenant) then call('ZADD', ring, TURNS.of(class.tier, class.tenant), class.tenant) end
end

local function drop_head(place, class, entry)
  call('ZREM', place, entry)
  if not class.tenant then return end
  local ring = place .. ':ring'
  call('ZREM', ring .. ':' .. class.tenant, entry)
  if call('EXISTS', ring .. ':' .. class.tenant) == 0 then call('ZREM', ring, class.tenant) end
end

-- The tenant whose turn it is, nil without any. A turn that has passed since it was stored is corrected here.
function TURNS.next_tenant(place, tier)
  local ring = place .. ':ring'
  local first = call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  for _ = 1, MAX_TURNS_REFRESHED do
    local turn = first[1] and TURNS.of(tier, first[1])
    if not turn or turn <= tonumber(first[2]) then break end
    call('ZADD', ring, turn, first[1])
    first = call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  end
  return first[1]
end

-- The best head of the tenant whose turn it is: its entry and its key, or nothing.
function TURNS.first(place, tier)
  local tenant = TURNS.next_tenant(place, tier)
  if not tenant then return nil end
  local head = call('ZRANGE', place .. ':ring:' .. tenant, 0, 0, 'WITHSCORES')
  return head[1], tonumber(head[2])
end
