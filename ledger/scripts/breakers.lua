-- Which breakers are not closed, and which queues are overloaded.
-- ARGV  names of branches and stores
-- ->    {now, {everything of `chorale:overload`}, {name, opened_at, open_until, probe_until or false, failures, reason}...}
local found = { now_ms(), redis.call('HGETALL', 'chorale:overload') }
for _, name in ipairs(ARGV) do
  local b = redis.call('HMGET', 'chorale:breaker:' .. name, 'opened_at', 'open_until', 'probe_until', 'failures', 'reason')
  if b[2] then found[#found + 1] = { name, b[1], b[2], b[3], b[4], b[5] } end
end
return found
