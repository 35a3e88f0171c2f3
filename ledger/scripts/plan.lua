-- Writes the plan once, and publishes the chord with it.
-- KEYS  entry, moments
-- ARGV  id, plan, latest branch limit (ms), finish reserve (ms), fusion reserve (ms), coalescing key or '', the plan's MAC,
--       then for each branch: name, queue, limit (ms), resend after (ms), hedge after (ms) or '',
--       lease of a started part (ms) or 0, '1' if its failure decides or '', message or ''
--       The script pushes the messages that it is given; the caller publishes the others.
-- ->    {'planned', now, join_at} | {'follows', leader} | {'known'} | {'closed'}
local e = redis.call('HMGET', KEYS[1], 'state', 'deadline', 'answer_ttl')
if not e[1] then return { 'closed' } end
if e[1] ~= 'accepted' then return { 'known' } end
local id, now, deadline = ARGV[1], now_ms(), tonumber(e[2])

-- For `AsyncResult` and `GroupResult` of Celery.  `group` is the JSON of the GroupResult, or nil.
local function store_started(group)
  local ttl_ms = result_ttl_ms(now, deadline, e[3])
  if group then redis.call('SET', GROUP_RESULT .. id, '{"result":' .. group .. '}', 'PX', ttl_ms) end
  local meta = task_meta(id, 'STARTED', '[' .. (group or '') .. ']', 'null', 'null')
  -- A worker of an application may have stored that the request is revoked.
  if not redis.call('SET', RESULT .. id, meta, 'PX', ttl_ms, 'NX') and is_started(redis.call('GET', RESULT .. id)) then
    redis.call('SET', RESULT .. id, meta, 'PX', ttl_ms)
  end
end

local coalescing_key = ARGV[6]
local MOST_FOLLOWED = 2
if coalescing_key ~= '' then
  local leader = redis.call('GET', coalescing_key)
  -- A leader's caller can change the leader's entry: it must not keep a follower waiting for ever.
  local followed = tonumber(redis.call('HGET', KEYS[1], 'followed')) or 0
  if leader and leader ~= id and followed < MOST_FOLLOWED then
    -- An id that was lost and accepted again may lead under another coalescing key now, or none.
    local is_read, l = pcall(redis.call, 'HMGET', ENTRY .. leader, 'coalescing_key', 'deadline', 'finish_reserve')
    local leads_until, reserve = tonumber(is_read and l[2] or nil), tonumber(is_read and l[3] or nil)
    local end_at = deadline - ARGV[4]
    if leads_until and reserve and l[1] == coalescing_key and leads_until - reserve <= end_at then
      -- Not in the leader's entry: its caller would learn the followers' ids.
      redis.call('HSET', FOLLOWERS .. leader, id, coalescing_key)
      redis.call('PEXPIRE', FOLLOWERS .. leader, math.max(1, deadline - now))
      redis.call('HSET', KEYS[1], 'state', 'following', 'leader', leader, 'finish_reserve', ARGV[4], 'followed', followed + 1)
      redis.call('ZADD', KEYS[2], math.min(math.max(now, leads_until) + FOLLOWER_EVERY_MS, end_at), id)
      store_started()
      return { 'follows', leader }
    end
  end
  redis.call('SET', coalescing_key, id, 'PX', math.max(1, deadline - now))
  redis.call('HSET', KEYS[1], 'coalescing_key', coalescing_key)
end

local join_at = math.min(now + ARGV[3], deadline - ARGV[5])
local fields = { 'state', 'planned', 'plan', ARGV[2], 'join_at', join_at, 'finish_reserve', ARGV[4],
  'fusion_reserve', ARGV[5], 'mac', ARGV[7] }
local function put(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
local parts, moment, is_pushed = {}, join_at, false
for i = 8, #ARGV, 8 do
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
  if message ~= '' then
    redis.call('LPUSH', queue, message)
    is_pushed = true
  end
  parts[#parts + 1] = '[["' .. id .. ':' .. branch .. '",null],null]'
end
if is_pushed then
  redis.call('LPUSH', READY, 1)
  redis.call('LTRIM', READY, 0, 63) -- perhaps no worker waits for tokens
end
put('left', #parts)
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('ZADD', KEYS[2], moment, id)
store_started('[["' .. id .. '",null],[' .. table.concat(parts, ',') .. ']]')
return { 'planned', now, join_at }
