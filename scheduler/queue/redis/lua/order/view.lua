-- The candidates of a take: the heads of classes, in the lanes that its worker knows. Twin: queue/memory/view.py.
-- A class under a cursor is not among the heads; its runs are read ahead, as many as may be granted.

local CURSORS = {{}, {}, {}, {}, {}}
-- `barred` is the best run of the tier that the last look chose, if its tenant may start nothing out of turn.
local VIEW = {actions = '*', lanes = {''}, moved = 0, barred = nil}

local function open_view(actions)
  begin_take(actions)
  VIEW.actions, VIEW.lanes = actions, known_lanes(actions)
end

-- As many classes were moved as one take may examine: the next take goes on.
local function is_cut_short()
  return VIEW.moved >= MAX_CLASSES_PER_TAKE
end

local function class_of_head(head)
  return head.class or class_of(string.sub(head.entry, head.cut + 1))
end

-- Whether the worker has a handler for a head.
local function knows_head(head)
  if head.known == nil then
    local action = head.lane == '' and VIEW.actions ~= '*' and string.match(head.entry, '^[1-5]|[^|]*|([^|]*)', head.cut + 1)
    head.known = not action or knows_action(VIEW.actions, action)
  end
  return head.known
end

-- The best head of a tier in a lane, cursors apart.
local function top_of(tier, lane)
  local place = place_of(tier, lane)
  local top = TOP[place]
  if top == nil then
    local found = call('ZRANGE', P .. 'heads:' .. place, 0, 0, 'WITHSCORES')
    top = head_from(found[1], found[2], lane)
    TOP[place] = top
  end
  return top
end

-- Move a class of the main lane to the lane of its action.
local function move_out(head)
  local class = class_of_head(head)
  drop_candidate(class, head.entry)
  split_lane(class.action)
  offer(class, head.key, head.member)
  VIEW.moved = VIEW.moved + 1
  for _, need in ipairs(class.needs) do wake(pool(need.pool)) end -- no start of its run will
end

local function better_of(head, other)
  return head and (not other or goes_before(head, other)) and head or other
end

-- The best head of the main lane, also under cursors; classes of unknown actions ahead of it leave the lane.
local function best_in_main(tier)
  while true do
    local best = top_of(tier, '')
    for _, cursor in ipairs(CURSORS[tier]) do
      if cursor.lane == '' then best = better_of(cursor, best) end
    end
    if not best or knows_head(best) then return best end
    if is_cut_short() then return false end
    move_out(best)
  end
end

-- The best head of a tier in the lanes of actions, cursors apart.
local function best_apart(tier)
  local best = TOP[-tier]
  if best == nil then
    best = false
    for i = 2, #VIEW.lanes do best = better_of(top_of(tier, VIEW.lanes[i]), best) end
    TOP[-tier] = best
  end
  return best
end

-- The best head of a tier, also under cursors.
local function best_of(tier)
  if S.ready[tier] == 0 then return nil end
  local top = TOP[tier]
  if top and top.known and not CURSORS[tier][1] and not VIEW.lanes[2] then return top end
  local best = best_in_main(tier)
  if VIEW.lanes[2] then best = better_of(best_apart(tier), best) end
  for _, cursor in ipairs(CURSORS[tier]) do
    if cursor.lane ~= '' then best = better_of(cursor, best) end
  end
  return best or nil
end

-- Whether several tenants have a candidate in a tier, under cursors or not.
local function has_others(tier, tenant)
  for _, lane in ipairs(VIEW.lanes) do
    local first = call('ZRANGE', P .. 'heads:' .. tier .. lane .. ':ring', 0, 1)
    if first[2] or (first[1] and first[1] ~= tenant) then return true end
  end
  for _, cursor in ipairs(CURSORS[tier]) do
    if cursor.class.tenant and cursor.class.tenant ~= tenant then return true end
  end
  return false
end

local function tenant_in_turn(tier)
  local next_one
  for _, lane in ipairs(VIEW.lanes) do
    local tenant, turn = next_tenant(P .. 'heads:' .. tier .. lane, tier)
    next_one = better_of(tenant and {key = turn, member = tenant}, next_one)
  end
  return next_one.member
end

-- The best head of the tenant whose turn it is, nil when the view is cut short. `mine` is the tenant of the best head.
local function first_in_turn(tier, mine)
  while not is_cut_short() do
    local tenant, best = tenant_in_turn(tier), nil
    for _, lane in ipairs(VIEW.lanes) do
      local place = P .. 'heads:' .. tier .. lane .. ':ring:' .. tenant
      local found = call('ZRANGE', place, 0, 0, 'WITHSCORES')
      local head = head_from(found[1], found[2], lane)
      if head and not knows_head(head) and tenant ~= mine then
        move_out(head)
        best = nil
        break
      end
      if head and knows_head(head) then best = better_of(head, best) end
    end
    if best then return best end
  end
end

-- The best head of a tier that is not barred while it is the turn of the tenant of a class.
local function best_by_key(tier, other)
  local best
  for _, lane in ipairs(VIEW.lanes) do
    local entry, key = first_by_key(P .. 'heads:' .. tier .. lane, other, VIEW.actions)
    best = better_of(head_from(entry, key, lane), best)
  end
  return best
end

-- The run that starts in a tier, nil when the view is cut short: one that goes out of turn, or else in turn. No class is
-- under a cursor. `mine` is the tenant of the best head.
local function run_to_start(tier, mine)
  local first, head = first_in_turn(tier, mine), best_of(tier)
  if not first then return nil end
  first.in_turn = true
  if not class_of_head(head).by_deadline then return first end
  local best = best_by_key(tier, class_of_head(first))
  if not best or best.member ~= head.member then VIEW.barred = head.member end
  local class = best and class_of_head(best)
  if not class or not class.by_deadline or best.key < WALL or class.tenant == class_of_head(first).tenant then return first end
  best.in_turn, best.out_of_turn = true, true
  return best
end
