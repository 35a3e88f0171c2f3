-- KEYS  the hash of the figures     ARGV  the field of the breakers, their names, then field and increment by turns
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
