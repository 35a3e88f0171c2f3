-- The fusion's first act: from here on the envelopes are frozen.
-- KEYS  entry, moments     ARGV  id, 'force' where the sweeper ends the request itself
-- ->    {'early'} | {'taken'} | {'closed'} | {'joined', now, the state before, everything the entry holds}
local id = ARGV[1]
local e = redis.call('HMGET', KEYS[1], 'state', 'left', 'join_at', 'fusing_until', 'deadline', 'finish_reserve', 'fusion_reserve')
if not e[1] then return { 'closed' } end
local now = now_ms()
if ARGV[2] ~= 'force' then
  if e[1] == 'planned' then
    if tonumber(e[2]) > 0 and now < tonumber(e[3]) then return { 'early' } end
  elseif e[1] == 'fusing' then
    if now < tonumber(e[4]) then return { 'taken' } end
  else
    return { 'closed' }
  end
end
local fusing_until = now + 150
if e[6] then fusing_until = math.min(e[5] - e[6], now + (e[7] or 0)) end
-- A step past the end still leaves the sweeper a moment of its own.
fusing_until = math.max(fusing_until, now + 20)
-- A deletion first, so that a full Redis can still join (see write_end).
redis.call('ZREM', KEYS[2], id)
redis.call('HSET', KEYS[1], 'state', 'fusing', 'fusing_until', fusing_until)
redis.call('ZADD', KEYS[2], fusing_until, id)
return { 'joined', now, e[1], redis.call('HGETALL', KEYS[1]) }
