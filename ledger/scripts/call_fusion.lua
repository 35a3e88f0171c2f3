-- Pushes a callback.
-- ARGV  message
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('ZREM', WAKEUPS, '')
redis.call('LPUSH', QUEUE_FUSION, ARGV[1])
