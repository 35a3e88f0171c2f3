-- A stamp that is later than every earlier stamp, even after the clock was set back.
-- KEYS  the last stamp, messages of the namespace that are not done     ARGV  message's ticket, kept for (s)
--       A writer without a message gives the last stamp alone.
-- ->    microseconds
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if now <= last then now = last + 1 end
redis.call('SET', KEYS[1], string.format('%.0f', now))
if KEYS[2] then
  redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[1])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return now
