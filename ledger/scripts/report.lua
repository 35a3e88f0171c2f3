-- A branch's last step.  The first answer wins and replaces a failure.
-- KEYS  entry, moments
-- ARGV  id, branch, status, branch result, attempt, accepted_at of the request that the branch worked for or '',
--       callback's message, or '' if the caller publishes it; the branch result's MAC
-- ->    'counted' | 'waits' (for the other attempt) | 'joined' (callback pushed) | 'due' (the caller publishes it)
--       | 'replaced' | 'duplicate' | 'closed'
local id, b, status, branch_result, attempt, _, callback, mac = unpack(ARGV)
local e = redis.call('HMGET', KEYS[1], 'state', 'limit:' .. b, 'status:' .. b, 'decided', 'accepted_at',
  'hedged:' .. b, 'failed:' .. b, 'decisive:' .. b, 'deadline', 'answer_ttl', 'finish_reserve')
if e[1] ~= 'planned' or not e[2] then return 'closed' end
if e[4] or (ARGV[6] ~= '' and ARGV[6] ~= e[5]) then return 'closed' end
local now = now_ms()
-- Stores the report, also for Celery's `AsyncResult`.
local function store()
  redis.call('HSET', KEYS[1], 'status:' .. b, status, 'result:' .. b, branch_result, 'mac:' .. b, mac)
  local reason = status == 'failed' and (string.match(branch_result, '"reason":"([%l_]+)"') or 'error') or nil
  end_part(id, b, status, reason, now, result_ttl_ms(now, e[9], e[10]))
end
if e[3] then
  if e[3] ~= 'failed' or status == 'failed' then return 'duplicate' end
  store()
  return 'replaced'
end
-- Keep the failure: the answer names it if the other attempt never reports.
if status == 'failed' and e[6] then
  if e[7] == attempt then return 'duplicate' end
  if not e[7] then
    redis.call('HSET', KEYS[1], 'failed:' .. b, attempt, 'result:' .. b, branch_result, 'mac:' .. b, mac)
    return 'waits'
  end
end
store()
if status == 'failed' and e[8] then
  redis.call('HSET', KEYS[1], 'decided', b, 'left', 0)
elseif redis.call('HINCRBY', KEYS[1], 'left', -1) > 0 then
  return 'counted'
end
redis.call('HINCRBY', KEYS[1], 'fuse_sent', 1)
redis.call('ZADD', KEYS[2], math.min(now + FUSE_EVERY_MS, e[9] - e[11]), id)
if callback == '' then return 'due' end
redis.call('LPUSH', QUEUE_FUSION, callback)
return 'joined'
