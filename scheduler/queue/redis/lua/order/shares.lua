-- The choice of the next tier. Twin: rules/shares.py.

-- Shares and ceilings count only between tiers whose best run is past its key.
local function is_late(head)
  return head ~= nil and head.key < WALL
end

-- The next tier to examine; `heads` are the best candidates by tier, or nil.
local function choose(heads)
  local best, best_at
  for tier = 1, TIER_COUNT do
    if is_late(heads[tier]) and S.owed[tier] >= 1 then
      local at = (MAX_DISPATCHES_SAVED - S.owed[tier]) / GUARANTEED[tier]
      if not best or at < best_at then best, best_at = tier, at end
    end
  end
  if best then return best end
  local any_below = false
  for tier = 1, TIER_COUNT do
    if is_late(heads[tier]) and S.room[tier] >= 1 then any_below = true end
  end
  for tier = 1, TIER_COUNT do
    local head = heads[tier]
    local may = head and (not any_below or (is_late(head) and S.room[tier] >= 1))
    if may and (not best or head.key < heads[best].key) then best = tier end
  end
  return best
end

-- Count a dispatch of a tier, one of the late ones in `heads`; without a late tier nothing counts.
local function served(heads, tier)
  local late = 0
  for each = 1, TIER_COUNT do
    if is_late(heads[each]) then
      late = late + 1
      S.owed[each] = min(MAX_DISPATCHES_SAVED, max(0, S.owed[each] + GUARANTEED[each] - (each == tier and 1 or 0)))
    end
  end
  if late < 2 then return end
  for each = 1, TIER_COUNT do
    if is_late(heads[each]) then
      S.room[each] = min(MAX_DISPATCHES_SAVED, max(-MAX_DISPATCHES_SAVED, S.room[each] + CEILINGS[each] - (each == tier and 1 or 0)))
    end
  end
end
