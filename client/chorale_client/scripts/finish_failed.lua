-- A caller that waited in vain ends the request itself; this works even where Redis lost the entry.
-- KEYS  entry, result, moments, outbox
-- ARGV  id, tail, request, fingerprint, head, accepted_at, answer's time to live (ms)
-- ->    the result, whoever wrote it
local result = redis.call('GET', KEYS[2])
if result then return result end
local now = now_ms()
local ended, entry = end_request(ARGV[1], 'client', ARGV[2], now)
if ended then
  release_followers(entry, ARGV[2], false, now)
  return ended
end
return write_end(ARGV[1], { request = ARGV[3], fingerprint = ARGV[4], head = ARGV[5], accepted_at = ARGV[6],
  answer_ttl = ARGV[7] }, 'client', ARGV[2], now)
