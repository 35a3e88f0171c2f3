-- Copies a namespace's generation, unless Redis has it or a newer one.
-- KEYS  the copy
-- ARGV  generation
if tonumber(ARGV[1]) > (tonumber(redis.call('GET', KEYS[1]) or '') or 0) then
  redis.call('SET', KEYS[1], ARGV[1])
end
