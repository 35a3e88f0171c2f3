-- Accepts a request and writes the plan that was made for it before, if the plan still holds: the corpus has the planned
-- generation, and no question is answered in the cache.
-- calls  accept, plan
-- KEYS  those of `accept`, corpus generation, cached answers
-- ARGV  those of `accept`, planned generation, those of `plan`
-- ->    {answer of `accept`, answer of `plan` or false, cached answer or false...}
local accepted = accept(KEYS, ARGV)
if accepted[1] ~= 'accepted' or redis.call('GET', KEYS[6]) ~= ARGV[11] then return { accepted, false } end
local cached, is_cached = { accepted, false }, false
for i = 7, #KEYS do
  cached[i - 4] = redis.call('GET', KEYS[i])
  is_cached = is_cached or cached[i - 4]
end
if is_cached then return cached end
return { accepted, plan({ KEYS[1], KEYS[3] }, { unpack(ARGV, 12) }) }
