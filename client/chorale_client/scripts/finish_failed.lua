-- A caller that waited in vain ends the request itself; this works even if Redis lost the entry.
-- KEYS  entry, result, moments, outbox
-- ARGV  id, body for a request that was never planned, request, fingerprint, head, accepted_at, answer's TTL (ms),
--       body for a planned request, body for a request whose fusion began
-- ->    the result, whoever wrote it
local result = ended_result(KEYS[2])
if result and not is_revoked(result) then return result end
local now = now_ms()
local state = redis.call('HGET', KEYS[1], 'state')
local body = state == 'planned' and ARGV[8] or state == 'fusing' and ARGV[9] or ARGV[2]
local ended, entry = end_request(ARGV[1], 'client', body, now)
if ended then
  leave_followers(ARGV[1], entry, now)
  return ended
end
return write_end(ARGV[1], { request = ARGV[3], fingerprint = ARGV[4], head = ARGV[5], accepted_at = ARGV[6],
  answer_ttl = ARGV[7] }, 'client', ARGV[2], now)
