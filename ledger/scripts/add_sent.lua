-- Adds a message to the sent messages of a source.  The message was sent already, so the script has to work in a full
-- Redis: it deletes first.
-- KEYS  sent messages     ARGV  message's ticket, kept for (s)
redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
