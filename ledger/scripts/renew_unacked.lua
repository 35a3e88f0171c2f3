-- Renews the records of messages that a live worker has.
-- KEYS  times by message, messages     ARGV  messages' tags
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('ZREM', KEYS[1], '')
local now = redis.call('TIME')
-- XX: a message that was acknowledged meanwhile must not be recorded again.
for _, tag in ipairs(ARGV) do redis.call('ZADD', KEYS[1], 'XX', now[1] + now[2] / 1000000, tag) end
