-- Publishes the outcome of a message with documents, and marks the message as done.
-- KEYS  why the message waits, messages that are not done, outcome
-- ARGV  message's ticket, its stamp, outcome, kept for (s)
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('DEL', KEYS[1])
-- A later stamp belongs to another message: a program without our client may use a ticket again.
local stamp = redis.call('ZSCORE', KEYS[2], ARGV[1])
if stamp and tonumber(stamp) <= tonumber(ARGV[2]) then redis.call('ZREM', KEYS[2], ARGV[1]) end
redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[4])
