-- The messages whose records nobody renewed in time.
-- KEYS  times by message, messages     ARGV  overdue after (s)
-- ->    tags, the oldest last: the message that is put back last is taken first
local now = redis.call('TIME')
return redis.call('ZREVRANGEBYSCORE', KEYS[1], now[1] + now[2] / 1000000 - ARGV[1], '-inf')
