-- The plan is written once, together with the publication of the chord.
-- KEYS  entry, moments
-- ARGV  id, plan, latest branch limit (ms), finish reserve (ms), fusion reserve (ms), flight key or '',
--       callback's queue, callback's message or '', then for each branch:
--       name, queue, limit (ms), resend after (ms), message or ''
--       Where messages are given, they are pushed here; otherwise the caller publishes.
-- ->    {'planned', now, join_at} | {'follows', leader} | {'known'} | {'closed'}
local e = redis.call('HMGET', KEYS[1], 'state', 'deadline')
if not e[1] then return { 'closed' } end
if e[1] ~= 'accepted' then return { 'known' } end
local id, now, deadline = ARGV[1], now_ms(), tonumber(e[2])

local flight = ARGV[6]
if flight ~= '' then
  local leader = redis.call('GET', flight)
  if leader and leader ~= id then
    -- An id that was lost and accepted again need not lead what it led before.
    local l = redis.call('HMGET', ENTRY .. leader, 'flight', 'deadline')
    if l[1] == flight and tonumber(l[2]) <= deadline then
      redis.call('HSET', ENTRY .. leader, 'follower:' .. id, 1)
      redis.call('HSET', KEYS[1], 'state', 'following', 'leader', leader, 'finish_reserve', ARGV[4])
      redis.call('ZADD', KEYS[2], math.min(l[2] + 50, deadline - ARGV[4]), id)
      return { 'follows', leader }
    end
  end
  redis.call('SET', flight, id, 'PX', math.max(1, deadline - now))
  redis.call('HSET', KEYS[1], 'flight', flight)
end

local join_at = math.min(now + ARGV[3], deadline - ARGV[5])
local fields = { 'state', 'planned', 'plan', ARGV[2], 'join_at', join_at, 'finish_reserve', ARGV[4],
  'fusion_reserve', ARGV[5], 'callback_queue', ARGV[7], 'callback', ARGV[8] }
local count, moment = 0, join_at
for i = 9, #ARGV, 5 do
  local branch, queue, message = ARGV[i], ARGV[i + 1], ARGV[i + 4]
  local resend = now + ARGV[i + 3]
  for _, v in ipairs({ 'queue:' .. branch, queue, 'limit:' .. branch, now + ARGV[i + 2], 'resend:' .. branch, resend }) do
    fields[#fields + 1] = v
  end
  if message ~= '' then redis.call('LPUSH', queue, message) end
  moment = math.min(moment, resend)
  count = count + 1
end
fields[#fields + 1] = 'left'
fields[#fields + 1] = count
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('ZADD', KEYS[2], moment, id)
return { 'planned', now, join_at }
