-- The breakers that are not closed, and the queues that are overloaded.
-- ARGV  names of branches and stores
-- ->    {now, {fields of the overload hash}, {name, opened_at, open_until, probe_until or false, failures, reason}...}
local reply = { now_ms(), redis.call('HGETALL', OVERLOAD) }
for _, name in ipairs(ARGV) do
  local b = redis.call('HMGET', BREAKER .. name, 'opened_at', 'open_until', 'probe_until', 'failures', 'reason')
  if b[2] then reply[#reply + 1] = { name, b[1], b[2], b[3], b[4], b[5] } end
end
return reply
