-- Counts what one ended request says about branches and stores: failures open breakers, answers close them, and the
-- durations of answers are kept.
-- ARGV  id, failures that open (0: never), open for (ms), kept for (ms), how many durations,
--       then for each branch or store: name, verdict, reason, answered after (ms) or ''
-- ->    {name, 'opened' | 'closed'}...
local id, limit, open_ms, ttl_ms, most = unpack(ARGV, 1, 5)
limit = tonumber(limit)
local turned = {}
local now = now_ms()
for i = 6, #ARGV, 4 do
  local name, verdict, reason, ms = unpack(ARGV, i, i + 3)
  local key = BREAKER .. name
  local b = redis.call('HMGET', key, 'open_until', 'probe')
  if verdict == 'answered' then
    -- Any answer closes the breaker, whichever request brought it.
    redis.call('DEL', key)
    if b[1] then turned[#turned + 1] = { name, 'closed' } end
    if ms ~= '' then
      local durations = DURATIONS .. name
      redis.call('LPUSH', durations, ms)
      redis.call('LTRIM', durations, 0, most - 1)
      redis.call('PEXPIRE', durations, ttl_ms)
    end
  elseif verdict == 'failed' and limit > 0 then
    local failures = redis.call('HINCRBY', key, 'failures', 1)
    redis.call('HSET', key, 'reason', reason)
    -- While the breaker is open only the probe's failure counts: the other requests were planned before it opened.
    if b[1] and b[2] == id or not b[1] and failures >= limit then
      redis.call('HSETNX', key, 'opened_at', now)
      redis.call('HSET', key, 'open_until', now + open_ms)
      redis.call('HDEL', key, 'probe', 'probe_until')
      turned[#turned + 1] = { name, 'opened' }
    end
    redis.call('PEXPIRE', key, ttl_ms)
  elseif b[2] == id then
    redis.call('HDEL', key, 'probe', 'probe_until')
  end
end
return turned
