-- Claims open breakers for one request, which tries them: all of them or none.
-- ARGV  id, claimed for (ms), '1' to claim before `open_until`, then names of a branch and its store
-- ->    1 if the request may try
local id, claimed_ms, early = unpack(ARGV, 1, 3)
local now = now_ms()
local claimable = {}
for i = 4, #ARGV do
  local key = BREAKER .. ARGV[i]
  local b = redis.call('HMGET', key, 'open_until', 'probe', 'probe_until')
  if b[1] and b[2] ~= id then
    if early ~= '1' and now < tonumber(b[1]) then return 0 end
    -- A claim expires if its request ended without a result for this branch.
    if b[2] and now < tonumber(b[3]) then return 0 end
    claimable[#claimable + 1] = key
  end
end
for _, key in ipairs(claimable) do redis.call('HSET', key, 'probe', id, 'probe_until', now + claimed_ms) end
return 1
