-- Copies a namespace's generation, unless Redis has it or a newer one.
-- KEYS  the copy
-- ARGV  generation
-- ->    the copy
local copy = tonumber(redis.call('GET', KEYS[1]) or '') or 0
if tonumber(ARGV[1]) > copy then
  redis.call('SET', KEYS[1], ARGV[1])
  return tonumber(ARGV[1])
end
return copy
