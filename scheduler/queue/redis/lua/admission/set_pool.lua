-- set_pool: create, change or remove a pool, or a template with all pools made from it. ARGV from 4: name, limits as JSON
-- or '', spent, '1' for an empty bucket, cursor. Returns the cursor of the next call, '0' at the end: the pools of a
-- template are changed in pages.

filled()
local name, cursor = ARGV[4], ARGV[8]
local BEFORE = name .. '\nbefore' -- while the pools of a template are changed: its previous limits
local given = ARGV[5] ~= '' and cjson.decode(ARGV[5])
local limits_now = given and limits_from(given) or nil

local function declare()
  if given then
    call('HSET', P .. 'limits', name, cmsgpack.pack(given))
  else
    call('HDEL', P .. 'limits', name)
  end
end

local function unpark_everything(p)
  for _, size in ipairs(S.lanes > 0 and call('ZRANGE', P .. 'sizes:' .. p.name, 0, -1) or {}) do separate(p, size) end
  for _, size in ipairs(call('ZRANGE', P .. 'sizes:' .. p.name, 0, -1)) do unpark_best(p, size, true) end
end

-- Change the limits of a pool. A pool that had none is new: full, less the units that runs still hold.
local function change(p, limits, spent, empty)
  local s = changing(p)
  if not limits then
    p.state = new_state(0, 0, s.used)
  elseif p.limits and p.known then
    if limits.kind ~= 'budget' then s.spent = 0 elseif p.limits.kind ~= 'budget' then s.spent = spent end
    s.level = min(s.level, limits.capacity)
    relog(s, log_resized(s.log, limits.slides and limits.window or 0))
    if limits.failures == 0 then s.open_until, s.trips, s.probe = 0, 0, '' end -- it has no breaker any more
  else
    p.state = new_state(empty and not limits.slides and 0 or limits.capacity, limits.slides and 0 or spent, s.used)
    if limits.slides and spent > 0 then
      p.state.level = max(0, p.state.level - spent)
      relog(p.state, {NOW, spent})
    end
  end
  p.kept, p.limits = p.state, limits
  unpark_everything(p)
  forget_if_idle(p)
end

-- A pool as stored, without the limits that its template would give it.
local function stored_pool(pool_name)
  local p = pool(pool_name)
  p.known = p.stored
  if not p.stored then p.kept, p.state = new_state(0, 0, 0), new_state(0, 0, 0) end
  return p
end

local function set_one()
  local p = stored_pool(name)
  declare()
  p.own = given and true or false
  local template = template_of(name)
  change(p, limits_now or (template and limits_of(template)) or nil, tonumber(ARGV[6]), ARGV[7] == 1)
  return '0'
end

local function set_template()
  local before = call('HGET', P .. 'limits', cursor == '0' and name or BEFORE)
  if cursor == '0' and before then call('HSET', P .. 'limits', BEFORE, before) end
  local fields = before and cmsgpack.unpack(before) or DEFAULT_LIMITS[name]
  local limits_then = limits_now or (DEFAULT_LIMITS[name] and limits_from(DEFAULT_LIMITS[name])) or nil
  LIMITS[name] = fields and limits_from(fields) or false
  local page = call('HSCAN', P .. 'pools', cursor, 'COUNT', 500)
  for i = 1, #page[2], 2 do
    if template_of(page[2][i]) == name then
      local p = stored_pool(page[2][i])
      if not p.own then change(p, limits_then, 0, false) end
    end
  end
  declare()
  if page[1] == '0' then call('HDEL', P .. 'limits', BEFORE) end
  return page[1]
end

local next_cursor = string.sub(name, -2) == ':*' and set_template() or set_one()
store_pools()
pass_wakeup_token()
save()
return next_cursor
