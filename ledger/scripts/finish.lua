-- The terminal write; the first one wins.
-- KEYS  entry     ARGV  id, by, tail, '1' if every question is complete
-- ->    milliseconds since acceptance; false if the request had ended already
local now = now_ms()
local ended, entry = end_request(ARGV[1], ARGV[2], ARGV[3], now)
if not ended then return false end
release_followers(entry, ARGV[3], ARGV[4] == '1', now)
return now - entry.accepted_at
