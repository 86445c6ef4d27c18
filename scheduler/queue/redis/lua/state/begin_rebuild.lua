-- begin_rebuild: empty the queue for an owner. ARGV from 4: owner, ms for which no other process may rebuild,
-- the damage or ''. Returns [whether keys of an older <fill> exist, the new fill], with '' when another process rebuilds,
-- or when damage was found just after a rebuild.

local owner, lasting, damage = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local others = S and S.builder ~= '' and S.builder ~= owner and NOW < S.build_until
local just_now = S and S.builder == '' and damage ~= '' and NOW - S.emptied < MIN_DAMAGE_INTERVAL_MS
if others or just_now then
  save()
  return {0, ''}
end
local time = call('TIME')
local fill = string.format('%.0f', time[1] * 1000000 + time[2])
if S and tonumber(S.fill) >= tonumber(fill) then fill = string.format('%.0f', S.fill + 1) end -- fills only rise
local before = S
S = {
  fill = fill, epoch = '', builder = owner, build_until = NOW + lasting, serial = 0, turn = 0, ready = {0, 0, 0, 0, 0},
  owed = {0, 0, 0, 0, 0}, room = {2, 2, 2, 2, 2}, last = before and before.last or NOW, calm = before and before.calm or 0,
  now = NOW, wall_lag = before and before.wall_lag or 0, shown = before and before.shown or 0,
  wall_lag_then = before and before.wall_lag_then or 0, emptied = NOW,
  lanes = 0,
}
drop_wakeup_tokens('')
local lanes = before and redis.pcall('HKEYS', P .. 'lanes') or {} -- an error if the key is damaged
for _, action in ipairs(lanes) do drop_wakeup_tokens('@' .. action) end
save()
if damage ~= '' then call('SET', KEYS[1] .. ':damage', cjson.encode({WALL, damage}), 'PX', DAMAGE_KNOWN_MS) end
return {(before or DAMAGED or OLDER) and 1 or 0, fill}
