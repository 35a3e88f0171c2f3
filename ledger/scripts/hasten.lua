-- The callback failed: the sweeper looks at the request now instead of later.
-- KEYS  entry, moments     ARGV  id
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 0 end
local now = now_ms()
if state == 'fusing' then redis.call('HSET', KEYS[1], 'fusing_until', 0) end
redis.call('ZADD', KEYS[2], now, ARGV[1])
return 1
