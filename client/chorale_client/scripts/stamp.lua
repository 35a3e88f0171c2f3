-- A stamp that is later than every other, though the clock is set back.
-- KEYS  the last one     -> microseconds
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if now <= last then now = last + 1 end
redis.call('SET', KEYS[1], string.format('%.0f', now))
return now
