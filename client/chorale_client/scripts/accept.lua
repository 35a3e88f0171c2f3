-- KEYS  entry, result, moments, outbox, overload
-- ARGV  id, request, fingerprint, head, timeout (ms), kept for (ms), answer's time to live (ms), body of a refusal,
--       a refusal that this request replaces, or '', body of a refusal because the outbox is full
-- ->    {'accepted', now, deadline} | {'known', state, accepted_at, deadline} | {'conflict'} | {'ended', result}
--       | {'refused', now, deadline, result}
local known = redis.call('HMGET', KEYS[1], 'fingerprint', 'state', 'accepted_at', 'deadline')
if known[1] then
  if known[1] ~= ARGV[3] then return { 'conflict' } end
  -- WAIT counts from the last write of its connection, and another connection may have entered the request.
  local expires_in_ms = redis.call('PTTL', KEYS[1])
  if expires_in_ms > 0 then redis.call('PEXPIRE', KEYS[1], expires_in_ms) end
  return { 'known', known[2], known[3], known[4] }
end
local result = ended_result(KEYS[2])
local now = now_ms()
if is_revoked(result) then
  write_end(ARGV[1], { request = ARGV[2], fingerprint = ARGV[3], head = ARGV[4], accepted_at = now, answer_ttl = ARGV[7] },
    'client', '', now)
  result = redis.call('GET', KEYS[2])
end
if result and result ~= ARGV[9] then return { 'ended', result } end
local deadline = now + ARGV[5]
local retry_after_ms = tonumber(redis.call('HGET', KEYS[5], 'retry_after_ms'))
local is_unaudited = outbox_share() >= 1
if retry_after_ms or is_unaudited then
  local body = is_unaudited and ARGV[10]
    or string.format('{"retry_after_s":%.3f,', retry_after_ms / 1000) .. string.sub(ARGV[8], 2)
  local refused = { request = ARGV[2], fingerprint = ARGV[3], head = ARGV[4], accepted_at = now, answer_ttl = ARGV[7] }
  return { 'refused', now, deadline, write_end(ARGV[1], refused, 'admission', body, now, is_unaudited) }
end
if result then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[1], 'state', 'accepted', 'request', ARGV[2], 'fingerprint', ARGV[3], 'head', ARGV[4],
  'accepted_at', now, 'deadline', deadline, 'answer_ttl', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
-- If nobody plans the request by then, the sweeper sends `chorale.retrieve` again.
local moment = math.min(now + PLAN_EVERY_MS, deadline - finish_reserve(ARGV[5]))
redis.call('ZADD', KEYS[3], moment, ARGV[1])
return { 'accepted', now, deadline }
