-- finish: remove leased runs, release their pools and learn. ARGV from 4: jitter, then for each run its id, its token,
-- in how many ms after the grant it began, the number of uses and [pool, units], the number of reports and [pool, ok, throttled, retry_after, latency].
-- Returns the runs that their tokens do not hold.

complete()
local again = said()
if again then return again end

local at = 5
local function argument()
  at = at + 1
  return ARGV[at - 1]
end

local function read_used()
  local used
  for _ = 1, tonumber(argument()) do
    used = used or {}
    local name = argument()
    used[name] = tonumber(argument())
  end
  return used
end

local function read_reports()
  local reports = {}
  for i = 1, tonumber(argument()) do
    reports[i] = {pool = argument(), ok = argument() == 1, throttled = argument() == 1}
    reports[i].retry_after, reports[i].latency = tonumber(argument()), tonumber(argument())
  end
  return reports
end

local ends = {}
while at <= #ARGV do
  local id, token, began_after = argument(), argument(), tonumber(argument())
  ends[#ends + 1] = {id = id, token = token, began_after = began_after, used = read_used(), reports = read_reports()}
end

-- The pools for which a run is the probe.
local function probed_by(run)
  local probed = {}
  for _, need in ipairs(run.class.needs) do probed[need.pool] = pool(need.pool).state.probe == run.id end
  return probed
end

-- Apply the reports to the pools that exist; return the names of these, sorted, each once.
local function learn_all(reports, jitter, probed)
  local names, seen = {}, {}
  for _, report in ipairs(reports) do
    local p = pool(report.pool)
    if p.limits and is_kept(p) then
      learn(p, report, jitter, probed[p.name])
      set_timer_after_learning(p)
      if not seen[p.name] then
        seen[p.name] = true
        names[#names + 1] = p.name
      end
    end
  end
  table.sort(names)
  return names
end

local lost = {}
for _, ended in ipairs(ends) do
  local run = held(ended.id, ended.token)
  if run then
    local probed = probed_by(run)
    release_lease(run, ended.used, ended.began_after)
    local learned = learn_all(ended.reports, tonumber(ARGV[4]), probed)
    wake_all(run.class)
    for _, name in ipairs(learned) do wake(pool(name)) end
    after_lease(run)
    for _, name in ipairs(learned) do rest(pool(name)) end
  else
    lost[#lost + 1] = ended.id
  end
end
store_pools()
pass_offered_tokens()
return answer(lost)
