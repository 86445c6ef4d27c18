-- end_rebuild: resume granting. ARGV[4]: owner. Returns 1, or 0 when another process took over the rebuild.

if not S then return 0 end
local again = said()
if again then return again end
if S.builder == '' or S.builder ~= ARGV[4] or NOW >= S.build_until then
  save()
  return 0
end
S.builder, S.epoch = '', S.fill
for tier = 1, HEADROOM_TIER_COUNT do offer_to('', tier) end
pass_wakeup_token()
return answer(1)
