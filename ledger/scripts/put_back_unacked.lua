-- Puts a message back into its queues, once, although several workers find it overdue.
-- KEYS  times by message, messages, queues     ARGV  message's tag, LPUSH or RPUSH, message for each queue
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return end
for i = 3, #KEYS do redis.call(ARGV[2], KEYS[i], ARGV[i]) end
