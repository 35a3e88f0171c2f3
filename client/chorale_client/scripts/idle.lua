-- Whether nothing waits in a queue and no worker has anything in hand: at one moment, since messages are put back.
-- KEYS  the queue, messages that workers have in hand     -> 1 or none
return redis.call('LLEN', KEYS[1]) + redis.call('HLEN', KEYS[2]) == 0
