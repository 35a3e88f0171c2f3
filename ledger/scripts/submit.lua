-- Accepts a request and writes the plan that was made for it before, if the plan still holds: the corpus has the planned
-- generation, and no question is answered in the cache.
-- calls  accept, plan
-- KEYS  those of `accept`, corpus generation, cached answers
-- ARGV  those of `accept`, planned generation, those of `plan`
-- ->    {answer of `accept`, answer of `plan` or false, cached answer or false...}
local accepted = accept(KEYS, ARGV)
if accepted[1] ~= 'accepted' or redis.call('GET', KEYS[6]) ~= ARGV[11] then return { accepted, false } end
local cached = #KEYS > 6 and redis.call('MGET', unpack(KEYS, 7)) or {}
for _, answer in ipairs(cached) do
  if answer then return { accepted, false, unpack(cached) } end
end
return { accepted, plan({ KEYS[1], KEYS[3] }, { unpack(ARGV, 12) }) }
