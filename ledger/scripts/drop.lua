-- Removes messages from the old end of a queue, unless somebody took one meanwhile.
-- KEYS  queue     ARGV  the oldest and the youngest message that the caller read, how many it read,
--                       then the messages to keep, the oldest last
-- ->    1; 0 if one of the two moved meanwhile, since another worker that starts may remove messages too
if redis.call('LINDEX', KEYS[1], -1) ~= ARGV[1] or redis.call('LINDEX', KEYS[1], -ARGV[3]) ~= ARGV[2] then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1 - ARGV[3])
for i = 4, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return 1
