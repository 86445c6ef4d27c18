-- Learning of a pool from results. Twin: rules/limits/breaker.py. A report: {pool, ok, throttled, retry_after,
-- latency}.

local function cut(s, shortage)
  if NOW - s.cut_at < CUT_INTERVAL_MS then return end
  s.factor = max(MIN_THROTTLE_RATIO, s.factor * (1 - min(MAX_CUT_RATIO, shortage)))
  s.good, s.bad, s.cut_at = 0, 0, NOW
end

local function count(limits, s, failed)
  s.seen = s.seen + 1
  s.errors = s.errors + (failed - s.errors) / min(s.seen, limits.samples)
end

local function throttled(s, report)
  s.stopped_until = max(s.stopped_until, NOW + report.retry_after)
  s.bad = s.bad + 1
  cut(s, s.bad / (s.good + s.bad))
end

local function answered(limits, s, report)
  if s.open_until > 0 then s.open_until, s.trips, s.probe = 0, 0, '' end
  s.good = s.good + 1
  s.failing = 0
  count(limits, s, 0)
  if 0 < limits.latency and limits.latency < report.latency then cut(s, 1 - limits.latency / report.latency) end
end

local function failed(limits, s, jitter)
  s.failing = s.failing + 1
  count(limits, s, 1)
  if limits.failures == 0 then return end
  local often = s.seen >= limits.samples and s.errors >= limits.error_rate
  if s.open_until > 0 or s.failing >= limits.failures or often then
    s.open_until = NOW + limits.cooldown * 2 ^ min(s.trips, MAX_COOLDOWN_DOUBLINGS) * (1 + jitter / 2)
    s.trips = s.trips + 1
    s.probe, s.failing, s.errors, s.seen = '', 0, 0, 0
  end
end

-- `probed`: the reporting run was the probe of this pool.
local function learn(p, report, jitter, probed)
  local s = changing(p)
  if report.throttled then
    throttled(s, report)
  elseif NOW < s.open_until or (s.open_until > 0 and not probed) then
    return -- the call began before the breaker opened
  elseif report.ok then
    answered(p.limits, s, report)
  else
    failed(p.limits, s, jitter)
  end
end

-- After a report: set the timer for when time alone opens the pool again.
local function set_timer_after_learning(p)
  local s = p.state
  local blocked = max(s.stopped_until, s.open_until)
  if blocked > NOW then set_timer(p.name, blocked) end
  if s.factor < 1 then set_timer(p.name, NOW + THROTTLE_CHECK_INTERVAL_MS) end
end
