-- One request tries what is open: all of these breakers are its to try, or none.
-- ARGV  id, claimed for (ms), '1' if it need not wait until the time is over, then names of a branch and its store
-- ->    1 if it may
local id, claimed_ms, early = unpack(ARGV, 1, 3)
local now = now_ms()
local mine = {}
for i = 4, #ARGV do
  local key = 'chorale:breaker:' .. ARGV[i]
  local b = redis.call('HMGET', key, 'open_until', 'probe', 'probe_until')
  if b[1] and b[2] ~= id then
    if early ~= '1' and now < tonumber(b[1]) then return 0 end
    -- A claim whose request ended without saying anything of this branch runs out.
    if b[2] and now < tonumber(b[3]) then return 0 end
    mine[#mine + 1] = key
  end
end
for _, key in ipairs(mine) do redis.call('HSET', key, 'probe', id, 'probe_until', now + claimed_ms) end
return 1
