-- Takes messages off the old end of a queue, unless somebody took one meanwhile.
-- KEYS  queue     ARGV  the oldest message as it was seen, how many were looked at, then those to keep, the oldest last
-- ->    1, or 0 where the oldest is another by now
if redis.call('LINDEX', KEYS[1], -1) ~= ARGV[1] then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1 - ARGV[2])
for i = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return 1
