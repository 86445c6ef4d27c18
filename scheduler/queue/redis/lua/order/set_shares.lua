-- set_shares: the shares of late tiers from now on. ARGV from 4: the version of the policy that has them, the guaranteed
-- shares of five tiers, and their ceilings. An older version than the one in force changes nothing.

filled()
if not S.policy or ARGV[4] >= S.policy[1] then
  S.policy = {}
  for i = 1, 11 do S.policy[i] = ARGV[3 + i] end
end
save()
