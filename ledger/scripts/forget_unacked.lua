-- Deletes the record of an acknowledged message.  A script, since Redis over `maxmemory` refuses every transaction.
-- KEYS  times by message, messages     ARGV  message's tag
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
