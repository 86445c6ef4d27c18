-- Runs and their classes as they are stored, and the class that was promised units of a pool. Twins: queue/memory/classes.py,
-- and pool.py for the promises.

local CLASSES = {}

-- '3|!acme|resize|gpu=1,tpm=600' -> tier, tenant, whether its runs go by their deadline ('!'), action, and needs in the
-- order of the pools' names.
local function class_of(name)
  local found = CLASSES[name]
  if not found then
    local tier, by_deadline, tenant, action, needs = string.match(name, '^([1-5])|(!?)([^|]*)|([^|]*)|(.*)$')
    if not tier then error('a class without a tier: ' .. name) end
    found = {name = name, tier = tonumber(tier), action = action, by_deadline = by_deadline ~= '', needs = {}}
    found.tenant = tenant ~= '' and tenant or nil
    for need, units in string.gmatch(needs, '([^,=]+)=([^,=]+)') do
      found.needs[#found.needs + 1] = {pool = need, units = tonumber(units)}
    end
    CLASSES[name] = found
  end
  return found
end

-- The class of an entry of a place.
local function class_of_entry(entry)
  return class_of(string.sub(entry, string.find(entry, '\n', 1, true) + 1))
end

-- The best head of a place, of a known action, that is not barred while it is the turn of the tenant of the class `other`;
-- nothing without one nearby.
local function first_by_key(place, other, actions)
  local turn, last = other and turn_of(other.tier, other.tenant) or math.huge, 0
  for first = 0, 1 do
    local heads = call('ZRANGE', place, first, last, 'WITHSCORES')
    for i = 1, #heads, 2 do
      local class = class_of_entry(heads[i])
      if knows_action(actions, class.action) and not is_barred(class, turn) then return heads[i], heads[i + 1] end
    end
    last = heads[1] and MAX_BARRED_HEADS_PASSED or 0
  end
end

local function member_of(created, id)
  return string.format('%017.3f', created) .. id
end

local function parts_of(member)
  local created, id = string.match(member, '^(%d+%.%d%d%d)(.*)$')
  return tonumber(created), id
end

-- Redis sorts equal scores byte by byte; a comparison in Lua would follow the locale.
local function goes_before(a, b)
  if a.key ~= b.key then return a.key < b.key end
  for i = 1, min(#a.member, #b.member) do
    local x, y = string.byte(a.member, i), string.byte(b.member, i)
    if x ~= y then return x < y end
  end
  return #a.member < #b.member
end

local function run_of(id, raw)
  local v = cmsgpack.unpack(raw)
  return {
    id = id, class = class_of(v[1]), key = v[2], created = v[3], not_before = v[4], granted = v[4], token = v[5],
    worker = v[6], again = v[7], member = member_of(v[3], id),
  }
end

local function read_run(id)
  local raw = call('HGET', P .. 'runs', id)
  return raw and run_of(id, raw) or nil
end

local function packed_run(class, key, created, not_before)
  return cmsgpack.pack({class, key, created, not_before})
end

local function head_of(class)
  local head = call('ZRANGE', P .. 'q:' .. class.name, 0, 0, 'WITHSCORES')
  return tonumber(head[2]), head[1]
end

-- Keep what is released for a class until then; '' ends that.
local function set_promise(p, class, until_then)
  p.kept.promised, p.kept.promised_until, p.dirty = class, until_then, true
  p.state.promised, p.state.promised_until = class, until_then
end

-- The class for which units of a pool were requested, while it waits.
local function promised_class(p)
  local s = p.state
  if s.promised == '' or NOW >= s.promised_until or call('EXISTS', P .. 'q:' .. s.promised) == 0 then return nil end
  return class_of(s.promised)
end
