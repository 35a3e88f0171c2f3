-- The fusion's first step: it closes the reports.  A branch that is late is left out from now on.
-- KEYS  entry, moments     ARGV  id, 'force' if the sweeper ends the request itself
-- ->    {'early'} | {'taken'} | {'closed'} | {'joined', now, the state before, id, all fields of the entry}
local id = ARGV[1]
local e = redis.call('HMGET', KEYS[1], 'state', 'left', 'join_at', 'fusing_until', 'deadline', 'finish_reserve', 'fusion_reserve',
  'accepted_at', 'plan', 'state_before')
if not e[1] then return { 'closed' } end
local now = now_ms()
if ARGV[2] ~= 'force' then
  if e[1] == 'planned' then
    if tonumber(e[2]) > 0 and now < tonumber(e[3]) then return { 'early' } end
  elseif e[1] == 'fusing' then
    if now < tonumber(e[4]) then return { 'taken' } end
  else
    return { 'closed' }
  end
end
-- A request that was joined without a plan has no fusion reserve, and perhaps no finish reserve.
local end_at = e[5] - (e[6] or finish_reserve(e[5] - e[8]))
local lease = tonumber(e[7] or SWEEPER_LEASE_MS)
-- A fusion worker may have joined several requests: with time left, it has longer than one of them needs.  It fuses a costly one
-- after all others.
if e[7] and ARGV[2] ~= 'force' then
  local half = math.floor((end_at - now) / 2)
  lease = math.max(lease, is_costly(e[9]) and half or math.min(LONGEST_FUSION_LEASE_MS, half))
end
local fusing_until = math.max(math.min(end_at, now + lease), now + SHORTEST_FUSION_MS)
-- A deletion stands first, so that a full Redis can still join (see write_end).
redis.call('ZREM', KEYS[2], id)
-- A second sweeper that ends the request still sees that no fusion worker had joined it.
local before = e[10] or e[1]
redis.call('HSET', KEYS[1], 'state', 'fusing', 'fusing_until', fusing_until,
  'state_before', ARGV[2] == 'force' and before or 'fusing')
redis.call('ZADD', KEYS[2], fusing_until, id)
return { 'joined', now, before, id, redis.call('HGETALL', KEYS[1]) }
