-- Pools that a run lacks, and parking on them; in the scripts that examine runs. Twins: queue/memory/pool.py and state.py.

-- Why a pool has too few units: for ever, until a time, or until others release some.
local function shortness(p, units, tier)
  local limits, s = p.limits, p.state
  local ever = units <= most(limits, tier, NOW)
  for i = 1, #limits.steps, 2 do
    if limits.steps[i] > NOW and units <= most(limits, tier, limits.steps[i]) then ever = true end
  end
  if not ever then return 'too_small' end
  if NOW < s.stopped_until then return 'stopped' end
  if NOW < s.open_until or (s.open_until > 0 and s.probe ~= '') then return 'breaker' end
  return 'short'
end

-- Why a pool does not admit a run; nothing when it does.
local function refusal(p, units, class, id, key)
  if not p.limits then return 'unknown' end
  if units > free(p, class.tier) then return shortness(p, units, class.tier) end
  if is_held_for_another(p, id, key, class) then return 'held' end
end

-- The first pool that does not admit a run, the units needed, and why; nothing when all admit it.
local function lacking(class, id, key)
  for _, need in ipairs(class.needs) do
    local p = pool(need.pool)
    local why = refusal(p, need.units, class, id, key)
    if why then return p, need.units, why end
  end
end

-- Whether no release could admit these units, so that a run parked here holds no other pool.
local function gives_nothing(p, units, tier, why)
  if why == 'short' then return units > in_reach(p, tier) end
  return why ~= 'held'
end

-- Park a class, whose head is in no place, on the pool that its head lacks.
local function park_behind(p, class, key, member, units, why)
  local _, id = parts_of(member)
  park(class, key, member, p)
  if p.limits and why ~= 'held' and why ~= 'too_small' then set_timer(p.name, helped_at(p, units, class.tier)) end
  check_holds(p)
  local nothing = gives_nothing(p, units, class.tier, why)
  for _, need in ipairs(class.needs) do
    local other = pool(need.pool)
    if nothing and other ~= p then
      HOLDS.drop(other, id, class)
    elseif why == 'short' and other.name < p.name and key < WALL and other.limits then
      -- A release may bring this pool soon, and what admitted the run must not be gone by then.
      HOLDS.hold_part(other, id, key, class)
    end
  end
  for _, need in ipairs(class.needs) do
    if need.pool ~= p.name then wake(pool(need.pool)) end
  end
end
