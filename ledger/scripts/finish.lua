-- The terminal write; the first one wins.
-- calls  release
-- KEYS  entry
-- ARGV  id, by, body, '1' if every question is complete, coalescing key that a worker signed or '', completed scores or '',
--       plan of a request that was never published or '', accepted_at of a request with unreported results, or nothing,
--       then {branch, status, branch result} of each branch of that request
-- ->    milliseconds since acceptance; false if the request had ended already
local id, by, body, is_complete, coalescing_key, completed, plan, accepted_at = unpack(ARGV, 1, 8)
if accepted_at and redis.call('HGET', KEYS[1], 'accepted_at') ~= accepted_at then return false end
-- A plan that was published stays.
local is_published = plan == '' or redis.call('HEXISTS', KEYS[1], 'plan') == 1
local now, more = now_ms(), { plan = not is_published and plan or nil }
for i = 9, #ARGV, 3 do
  more['status:' .. ARGV[i]], more['result:' .. ARGV[i]] = ARGV[i + 1], ARGV[i + 2]
end
local ended, entry = end_request(id, by, body, now, completed, more)
if not ended then return false end
for i = 9, #ARGV, 3 do end_part(id, ARGV[i], ARGV[i + 1], nil, now, entry.answer_ttl) end
if coalescing_key ~= '' and redis.call('GET', coalescing_key) == id then redis.call('DEL', coalescing_key) end
release({ FOLLOWERS .. id }, { coalescing_key, body, is_complete })
return now - entry.accepted_at
