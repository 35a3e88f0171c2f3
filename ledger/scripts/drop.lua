-- Takes messages off the old end of a queue, unless somebody took one meanwhile.
-- KEYS  queue     ARGV  the oldest and the youngest message that were looked at, how many were, then those to keep,
--                       the oldest last
-- ->    1, or 0 where either stands elsewhere by now: another worker that starts may drop messages too
if redis.call('LINDEX', KEYS[1], -1) ~= ARGV[1] or redis.call('LINDEX', KEYS[1], -ARGV[3]) ~= ARGV[2] then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1 - ARGV[3])
for i = 4, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return 1
