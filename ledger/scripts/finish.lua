-- The terminal write; the first one wins.
-- calls  release
-- KEYS  entry
-- ARGV  id, by, body, '1' if every question is complete, coalescing key that a worker signed or '', completed scores or '',
--       plan of a request that was never published or ''
-- ->    milliseconds since acceptance; false if the request had ended already
local id, by, body, is_complete, coalescing_key, completed, plan = unpack(ARGV)
local now = now_ms()
local ended, entry = end_request(id, by, body, now, completed, plan)
if not ended then return false end
if coalescing_key ~= '' and redis.call('GET', coalescing_key) == id then redis.call('DEL', coalescing_key) end
release({ FOLLOWERS .. id }, { coalescing_key, body, is_complete })
return now - entry.accepted_at
