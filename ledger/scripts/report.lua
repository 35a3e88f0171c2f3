-- A branch's last act, once: the first answer wins, and replaces a failure.
-- KEYS  entry, moments     ARGV  id, branch, status, envelope
-- ->    'counted' | 'joined' (callback pushed) | 'due' (the caller publishes it) | 'replaced' | 'duplicate' | 'closed'
local id, b, status, envelope = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local e = redis.call('HMGET', KEYS[1], 'state', 'limit:' .. b, 'status:' .. b)
if e[1] ~= 'planned' or not e[2] then return 'closed' end
if e[3] then
  if e[3] ~= 'failed' or status == 'failed' then return 'duplicate' end
  redis.call('HSET', KEYS[1], 'status:' .. b, status, 'envelope:' .. b, envelope)
  return 'replaced'
end
redis.call('HSET', KEYS[1], 'status:' .. b, status, 'envelope:' .. b, envelope)
if redis.call('HINCRBY', KEYS[1], 'left', -1) > 0 then return 'counted' end
local now = now_ms()
local c = redis.call('HMGET', KEYS[1], 'callback_queue', 'callback', 'deadline', 'finish_reserve')
redis.call('HINCRBY', KEYS[1], 'fuse_sent', 1)
redis.call('ZADD', KEYS[2], math.min(now + 250, c[3] - c[4]), id)
if c[2] == '' then return 'due' end
redis.call('LPUSH', c[1], c[2])
return 'joined'
