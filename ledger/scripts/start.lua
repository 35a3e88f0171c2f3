-- A branch's first step.
-- KEYS  entry     ARGV  branch
-- ->    {milliseconds left, request, plan, now - accepted_at, accepted_at, flight, plan's MAC, id}
--       | false if nobody waits for the branch any more
local b = ARGV[1]
local e = redis.call('HMGET', KEYS[1], 'state', 'limit:' .. b, 'join_at', 'status:' .. b, 'request', 'plan', 'accepted_at', 'decided',
  'flight', 'mac')
if e[1] ~= 'planned' or not e[2] or (e[4] and e[4] ~= 'failed') or e[8] then return false end
local now = now_ms()
redis.call('HSETNX', KEYS[1], 'started:' .. b, now)
return { math.min(e[2], e[3]) - now, e[5], e[6], now - e[7], e[7], e[9], e[10], string.sub(KEYS[1], #ENTRY + 1) }
