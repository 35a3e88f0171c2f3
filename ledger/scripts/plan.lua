-- Writes the plan once, and publishes the chord with it.
-- KEYS  entry, moments
-- ARGV  id, plan, latest branch limit (ms), finish reserve (ms), fusion reserve (ms), flight key or '',
--       then for each branch: name, queue, limit (ms), resend after (ms), hedge after (ms) or '',
--       lease of a started part (ms) or 0, '1' if its failure decides or '', message or ''
--       The script pushes the messages that it is given; the caller publishes the others.
-- ->    {'planned', now, join_at} | {'follows', leader} | {'known'} | {'closed'}
local e = redis.call('HMGET', KEYS[1], 'state', 'deadline')
if not e[1] then return { 'closed' } end
if e[1] ~= 'accepted' then return { 'known' } end
local id, now, deadline = ARGV[1], now_ms(), tonumber(e[2])

local flight = ARGV[6]
if flight ~= '' then
  local leader = redis.call('GET', flight)
  if leader and leader ~= id then
    -- An id that was lost and accepted again may lead another flight now, or none.
    local l = redis.call('HMGET', ENTRY .. leader, 'flight', 'deadline', 'finish_reserve')
    local end_at = deadline - ARGV[4]
    if l[1] == flight and l[2] - l[3] <= end_at then
      redis.call('HSET', ENTRY .. leader, 'follower:' .. id, 1)
      redis.call('HSET', KEYS[1], 'state', 'following', 'leader', leader, 'finish_reserve', ARGV[4])
      redis.call('ZADD', KEYS[2], math.min(l[2] + FOLLOWER_EVERY_MS, end_at), id)
      return { 'follows', leader }
    end
  end
  redis.call('SET', flight, id, 'PX', math.max(1, deadline - now))
  redis.call('HSET', KEYS[1], 'flight', flight)
end

local join_at = math.min(now + ARGV[3], deadline - ARGV[5])
local fields = { 'state', 'planned', 'plan', ARGV[2], 'join_at', join_at, 'finish_reserve', ARGV[4],
  'fusion_reserve', ARGV[5] }
local function put(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
local count, moment = 0, join_at
for i = 7, #ARGV, 8 do
  local branch, queue, limit_ms, resend_ms, hedge_ms, lease_ms, decisive, message = unpack(ARGV, i, i + 7)
  put('limit:' .. branch, now + limit_ms)
  put('resend:' .. branch, now + resend_ms)
  moment = math.min(moment, now + resend_ms)
  -- A second attempt after the branch's own limit would be useless.
  if hedge_ms ~= '' and tonumber(hedge_ms) < tonumber(limit_ms) then
    put('hedge:' .. branch, now + hedge_ms)
    moment = math.min(moment, now + hedge_ms)
  end
  if tonumber(lease_ms) > 0 then put('lease:' .. branch, lease_ms) end
  if decisive ~= '' then put('decisive:' .. branch, 1) end
  if message ~= '' then redis.call('LPUSH', queue, message) end
  count = count + 1
end
put('left', count)
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('ZADD', KEYS[2], moment, id)
return { 'planned', now, join_at }
