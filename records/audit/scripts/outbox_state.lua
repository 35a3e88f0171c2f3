-- KEYS  outbox     ->  {number of entries, age of the oldest (ms)}.  The oldest entry may have megabytes; only its age is returned.
local entries = redis.call('XLEN', KEYS[1])
if entries == 0 then return { 0, 0 } end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1]
return { entries, math.max(0, now_ms() - string.match(oldest, '%d+')) }
