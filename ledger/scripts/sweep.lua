-- Finds the requests that are due.  Only the sweeper that holds the lease acts; moving a request's moment ahead leases it.
-- calls  sound_entry, release
-- KEYS  moments, sweeper, quarantine
-- ARGV  sweeper's name, maximum number of requests, then name and queue of each branch of the pipeline
-- ->    {milliseconds until the next moment or -1, {action, id[, branch or reason]}...}
--       | {-2, milliseconds until another sweeper's lease ends}
-- actions: 'retrieve', 'part', 'hedge' (attempt 2 of a part) and 'fuse': the caller sends the message;
--          'plan' and 'end': the caller plans or ends the request;
--          'quarantine' and 'error': the caller logs the reason
local now = now_ms()
local holder = redis.call('GET', KEYS[2])
-- A lease that lasts longer than SWEEPER_LEASE_MS was taken before the clock was set back.
if holder and holder ~= ARGV[1] then
  local lease_ms = redis.call('PTTL', KEYS[2])
  if lease_ms ~= -1 and lease_ms <= SWEEPER_LEASE_MS then return { -2, lease_ms } end
end
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', SWEEPER_LEASE_MS)

-- How often a follower is left to a leader that is late; after that it is planned anew.
local MOST_LEADER_DELAYS = 4
local actions, last, queue_of = {}, {}, {}
for i = 3, #ARGV, 2 do queue_of[ARGV[i]] = ARGV[i + 1] end
local function act(...) actions[#actions + 1] = { ... } end

local function call_fusion(key, id)
  redis.call('HINCRBY', key, 'fuse_sent', 1)
  act('fuse', id)
end

-- The sweeper's next moment for a request that is being searched.
local function sweep_parts(key, id, e)
  local moment = tonumber(e.join_at)
  for field in pairs(e) do
    local b = string.sub(field, 1, 6) == 'limit:' and string.sub(field, 7)
    -- No entry names a queue: a caller's login can write any entry.
    if b and queue_of[b] then
      local hedge = tonumber(e['hedge:' .. b])
      if hedge and not e['status:' .. b] and not e['hedged:' .. b] then
        if hedge <= now then
          redis.call('HSET', key, 'hedged:' .. b, now)
          redis.call('HSETNX', key, 'again:' .. b, now)
          act('hedge', id, b)
        else
          moment = math.min(moment, hedge)
        end
      end
      local resent = tonumber(e['resent:' .. b] or 0)
      local started, lease = tonumber(e['started:' .. b]), tonumber(e['lease:' .. b])
      if not e['status:' .. b] and (not started or lease) and resent < RESENDS then
        local at = tonumber(e['resend:' .. b] or 0)
        -- The worker that started the part may have died with it.
        if started then at = math.max(at, started + lease) end
        if at <= now then
          at = now + math.max(RESEND_EVERY_MS, started and lease or 0)
          -- If messages wait in the queue a part that nobody started is among them, and a copy would only add to the load.
          -- With another broker there is no such list, and RESENDS alone bounds the copies.
          if started or redis.call('LLEN', queue_of[b]) == 0 then
            redis.call('HINCRBY', key, 'resent:' .. b, 1)
            redis.call('HSETNX', key, 'again:' .. b, now)
            act('part', id, b)
          end
          redis.call('HSET', key, 'resend:' .. b, at)
        end
        moment = math.min(moment, at)
      end
    end
  end
  return moment
end

local function sweep_entry(key, id, e)
  local end_at = e.deadline - (tonumber(e.finish_reserve) or finish_reserve(e.deadline - e.accepted_at))
  local moment = end_at
  local fuse_sent = tonumber(e.fuse_sent or 0)
  if now >= end_at then
    -- Followers come last: a leader that ends at the same moment answers them.
    if e.state == 'following' then last[#last + 1] = { 'end', id } else act('end', id) end
    moment = now + SWEEPER_LEASE_MS
  elseif e.state == 'following' and redis.call('EXISTS', ENTRY .. e.leader) == 1
    and redis.call('HINCRBY', key, 'leader_late', 1) <= MOST_LEADER_DELAYS then
    moment = now + FOLLOWER_EVERY_MS
  elseif e.state == 'accepted' or e.state == 'following' then
    if e.state == 'following' then redis.call('HSET', key, 'state', 'accepted', 'retrieve_sent', 0) end
    local sent = redis.call('HINCRBY', key, 'retrieve_sent', 1)
    if sent <= RETRIEVES + PLANS then
      act(sent <= RETRIEVES and 'retrieve' or 'plan', id)
      moment = now + PLAN_EVERY_MS * sent
    end
  elseif e.state == 'planned' then
    if tonumber(e.left) <= 0 or now >= tonumber(e.join_at) then
      if fuse_sent < FUSES then
        -- A callback that was sent may still wait in its queue.
        if fuse_sent == 0 or redis.call('LLEN', QUEUE_FUSION) == 0 then call_fusion(key, id) end
        moment = now + FUSE_EVERY_MS
      end
    else
      moment = sweep_parts(key, id, e)
    end
  elseif e.state == 'fusing' then
    local fusing_until = tonumber(e.fusing_until)
    if now < fusing_until then
      moment = fusing_until
    elseif e.fusion_reserve and fuse_sent < FUSES and now + e.fusion_reserve <= end_at then
      call_fusion(key, id)
      moment = now + FUSE_EVERY_MS
    elseif e.fusion_reserve and fusing_until > 0 then
      -- No worker has failed (see hasten.lua): one that is slow may still end the request, and its answer is better than the sweeper's.
      moment = end_at
    else
      act('end', id)
      moment = now + SWEEPER_LEASE_MS
    end
  end
  if now < end_at then moment = math.min(moment, end_at) end
  redis.call('ZADD', KEYS[1], math.max(moment, now + 1), id)
end

local function sweep(id)
  local key = ENTRY .. id
  local e, why = sound_entry({ key, KEYS[3] }, { id })
  if e then return sweep_entry(key, id, e) end
  if why then return act('quarantine', string.sub(id, 1, 128), why) end
  redis.call('ZREM', KEYS[1], id)
  -- A caller that ends its request leaves the followers to the sweeper.
  release({ FOLLOWERS .. id }, { '', '', '' })
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])) do
  -- Whatever is wrong with one request, the others go on.
  local is_done, why = pcall(sweep, id)
  if not is_done then
    redis.call('ZADD', KEYS[1], now + FUSE_EVERY_MS, id)
    act('error', id, type(why) == 'table' and why.err or tostring(why))
  end
end
for _, action in ipairs(last) do actions[#actions + 1] = action end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return { first[2] and math.max(0, math.min(first[2] - now, 1e15)) or -1, unpack(actions) }
