-- A branch's first step.
-- KEYS  entry     ARGV  branch
-- ->    {milliseconds left, request, plan, now - accepted_at, accepted_at, coalescing key, plan's MAC, id, deadline,
--        '' if no message was sent again}
--       | false if nobody waits for the branch any more
local b = ARGV[1]
local e = redis.call('HMGET', KEYS[1], 'state', 'limit:' .. b, 'join_at', 'status:' .. b, 'request', 'plan', 'accepted_at', 'decided',
  'coalescing_key', 'mac', 'deadline', 'answer_ttl', 'again:' .. b)
if e[1] ~= 'planned' or not e[2] or (e[4] and e[4] ~= 'failed') or e[8] then return false end
local now = now_ms()
local id = string.sub(KEYS[1], #ENTRY + 1)
if redis.call('HSETNX', KEYS[1], 'started:' .. b, now) == 1 then
  local part = id .. ':' .. b
  redis.call('SET', RESULT .. part, task_meta(part, 'STARTED', '[]', 'null', 'null'), 'PX', result_ttl_ms(now, e[11], e[12]))
end
return { math.min(e[2], e[3]) - now, e[5], e[6], now - e[7], e[7], e[9], e[10], id, e[11], e[13] or '' }
