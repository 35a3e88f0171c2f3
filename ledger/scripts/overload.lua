-- Replaces what the acting sweeper says about overload.
-- KEYS  sweeper, overload     ARGV  sweeper's name, expires after (ms), field, value...
-- ->    1; 0 if another sweeper acts
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if #ARGV > 2 then
  redis.call('HSET', KEYS[2], unpack(ARGV, 3))
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 1
