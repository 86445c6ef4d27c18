-- Which tier is served next: the arithmetic of rules/shares.py. GUARANTEED and CEILINGS are the shares by tier.

local SAVED = 2

-- The tier to look at next; `heads` are by tier the best candidates, nil without.
local function choose(heads)
  local best, best_at
  for tier = 1, 5 do
    if heads[tier] and S.owed[tier] >= 1 then
      local at = (SAVED - S.owed[tier]) / GUARANTEED[tier]
      if not best or at < best_at then best, best_at = tier, at end
    end
  end
  if best then return best end
  local any_below = false
  for tier = 1, 5 do
    if heads[tier] and S.room[tier] >= 1 then any_below = true end
  end
  for tier = 1, 5 do
    if heads[tier] and (S.room[tier] >= 1 or not any_below) and (not best or heads[tier].key < heads[best].key) then
      best = tier
    end
  end
  return best
end

-- A tier got a dispatch while all in `heads`, itself among them, had something that may start.
local function served(heads, tier)
  local waiting = 0
  for each = 1, 5 do
    if heads[each] then
      waiting = waiting + 1
      S.owed[each] = min(SAVED, max(0, S.owed[each] + GUARANTEED[each] - (each == tier and 1 or 0)))
    end
  end
  if waiting == 1 then return end
  for each = 1, 5 do
    if heads[each] then
      S.room[each] = min(SAVED, max(-SAVED, S.room[each] + CEILINGS[each] - (each == tier and 1 or 0)))
    end
  end
end
