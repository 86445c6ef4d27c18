-- Shortages as a reply: [pool, why, units, free, capacity, helped_at or '', held_for or '',
-- 1 if units were requested for its class, holders ..].

local function holders(name)
  local found = {}
  local leased = call('ZRANGE', P .. 'leases', 0, MAX_LEASES_SCANNED - 1)
  if not leased[1] then return found end
  for i, raw in ipairs(call('HMGET', P .. 'runs', unpack(leased))) do
    if raw and units_of(class_of(cmsgpack.unpack(raw)[1]), name) then found[#found + 1] = leased[i] end
  end
  return found
end

local function first_of_class(class)
  local _, member = head_of(class)
  local _, id = parts_of(member)
  return id
end

local function shortage(class, id, key)
  local p, units, why = lacking(class, id, key)
  if not p then return {} end
  local reply = {p.name, why, number(units), '0', '0', '', '', 0}
  if p.limits then
    reply[4], reply[5] = number(free(p, class.tier)), number(capacity(p.limits, NOW))
    local promised = promised_class(p)
    reply[8] = promised == class and 1 or 0
    if why == 'held' then
      reply[7] = promised and first_of_class(promised) or held_for(p, id, key, class).id
    elseif why ~= 'too_small' then
      local helped = helped_at(p, units, class.tier)
      reply[6] = number(helped and helped - S.wall_lag)
    end
  end
  for _, holder in ipairs(holders(p.name)) do reply[#reply + 1] = holder end
  return reply
end
