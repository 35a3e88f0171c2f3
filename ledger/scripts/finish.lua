-- The terminal write; the first one wins.
-- calls  release
-- KEYS  entry
-- ARGV  id, by, body, '1' if every question is complete, flight that a worker signed or '', completed scores or '',
--       plan of a request that was never published or ''
-- ->    milliseconds since acceptance; false if the request had ended already
local id, by, body, is_complete, flight, completed, plan = unpack(ARGV)
local now = now_ms()
local ended, entry = end_request(id, by, body, now, completed, plan)
if not ended then return false end
if flight ~= '' and redis.call('GET', flight) == id then redis.call('DEL', flight) end
release({ FOLLOWERS .. id }, { flight, body, is_complete })
return now - entry.accepted_at
