-- renew: prolong leases. ARGV from 4: how long in ms, then run id and token of each. Returns the runs that are lost.

complete()
local lost, kept = {}, {}
for i = 5, #ARGV, 2 do
  if held(ARGV[i], ARGV[i + 1]) then
    kept[#kept + 1] = NOW + tonumber(ARGV[4])
    kept[#kept + 1] = ARGV[i]
  else
    lost[#lost + 1] = ARGV[i]
  end
end
if kept[1] then call('ZADD', P .. 'leases', 'XX', unpack(kept)) end
save()
return lost
