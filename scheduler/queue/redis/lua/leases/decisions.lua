-- The record of what a take saw at each look, for takes that ask for it. Twin: View.note in queue/memory/view.py.
-- `looks` is nil unless the take records. `heads` are the best runs by tier, also those for which no thread is left.

local RECORD = {looks = nil, heads = {}}

local function noted_head(head)
  if not head then return '' end
  local _, id = parts_of(head.member)
  local name = class_of_head(head).name
  if head.member == VIEW.barred then name = string.gsub(name, '!', '', 1) end
  return {id, number(head.key), name}
end

-- Record a look at the run under a cursor; `short` is the pool that it lacks, nil when it starts.
function RECORD.note(tier, cursor, idle, short, why)
  if #RECORD.looks >= MAX_LOOKS_RECORDED then return end
  local owed, room, heads, pools = {}, {}, {}, {}
  for each = 1, TIER_COUNT do
    owed[each], room[each], heads[each] = number(S.owed[each]), number(S.room[each]), noted_head(RECORD.heads[each])
  end
  for _, need in ipairs(cursor.class.needs) do
    local p = pool(need.pool)
    pools[#pools + 1] = {need.pool, need.units, p.limits and number(free(p, tier)) or '', p == short and why or ''}
    if p == short then break end
  end
  local policy = S.policy and S.policy[1] or 0
  RECORD.looks[#RECORD.looks + 1] = {number(WALL), policy, idle, owed, room, heads, tier, noted_head(cursor), pools, cursor.out_of_turn and 1 or 0}
end
