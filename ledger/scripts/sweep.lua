-- Finds the requests that are due.  Only the sweeper that holds the lease acts; moving a request's moment ahead leases it.
-- KEYS  moments, sweeper     ARGV  sweeper's name, maximum number of requests
-- ->    {milliseconds until the next moment or -1, {action, id[, branch]}...};  {-2} if another sweeper acts
-- actions: 'retrieve', 'part', 'hedge' (attempt 2 of a part) and 'fuse': the caller sends the message;
--          'plan' and 'end': the caller plans or ends the request
local now = now_ms()
local holder = redis.call('GET', KEYS[2])
-- A lease that lasts longer than SWEEPER_LEASE_MS was taken before the clock was set back.
if holder and holder ~= ARGV[1] and redis.call('PTTL', KEYS[2]) <= SWEEPER_LEASE_MS then return { -2 } end
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', SWEEPER_LEASE_MS)

local actions, last = {}, {}
local function act(...) actions[#actions + 1] = { ... } end

local function call_fusion(key, id)
  redis.call('HINCRBY', key, 'fuse_sent', 1)
  act('fuse', id)
end

local function is_empty(plan, branch)
  for _, one in ipairs(cjson.decode(plan).branches) do
    if one.name == branch then return redis.call('LLEN', one.queue) == 0 end
  end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local key = ENTRY .. id
  local e = as_table(redis.call('HGETALL', key))
  if not e.state then
    redis.call('ZREM', KEYS[1], id)
  else
    local reserve = tonumber(e.finish_reserve) or finish_reserve(e.deadline - e.accepted_at)
    local end_at = e.deadline - reserve
    local moment = end_at
    local fuse_sent = tonumber(e.fuse_sent or 0)
    if now >= end_at then
      -- Followers come last: a leader that ends at the same moment answers them.
      if e.state == 'following' then last[#last + 1] = { 'end', id } else act('end', id) end
      moment = now + SWEEPER_LEASE_MS
    elseif e.state == 'accepted' or (e.state == 'following' and redis.call('EXISTS', ENTRY .. e.leader) == 0) then
      if e.state == 'following' then redis.call('HSET', key, 'state', 'accepted', 'retrieve_sent', 0) end
      local sent = redis.call('HINCRBY', key, 'retrieve_sent', 1)
      if sent <= RETRIEVES + PLANS then
        act(sent <= RETRIEVES and 'retrieve' or 'plan', id)
        moment = now + PLAN_EVERY_MS * sent
      end
    elseif e.state == 'following' then
      moment = now + FOLLOWER_EVERY_MS
    elseif e.state == 'planned' then
      if tonumber(e.left) <= 0 or now >= tonumber(e.join_at) then
        if fuse_sent < FUSES then
          -- A callback that was sent may still wait in its queue.
          if fuse_sent == 0 or redis.call('LLEN', QUEUE_FUSION) == 0 then call_fusion(key, id) end
          moment = now + FUSE_EVERY_MS
        end
      else
        moment = tonumber(e.join_at)
        for field in pairs(e) do
          if string.sub(field, 1, 6) == 'limit:' then
            local b = string.sub(field, 7)
            local hedge = tonumber(e['hedge:' .. b])
            if hedge and not e['status:' .. b] and not e['hedged:' .. b] then
              if hedge <= now then
                redis.call('HSET', key, 'hedged:' .. b, now)
                act('hedge', id, b)
              else
                moment = math.min(moment, hedge)
              end
            end
            local resent = tonumber(e['resent:' .. b] or 0)
            local started, lease = tonumber(e['started:' .. b]), tonumber(e['lease:' .. b])
            if not e['status:' .. b] and (not started or lease) and resent < RESENDS then
              local at = tonumber(e['resend:' .. b])
              -- The worker that started the part may have died with it.
              if started then at = math.max(at, started + lease) end
              if at <= now then
                at = now + math.max(RESEND_EVERY_MS, started and lease or 0)
                -- If messages wait in the queue a part that nobody started is among them, and a copy would only add to the load.
                -- With another broker there is no such list, and RESENDS alone bounds the copies.
                if started or is_empty(e.plan, b) then
                  redis.call('HINCRBY', key, 'resent:' .. b, 1)
                  act('part', id, b)
                end
                redis.call('HSET', key, 'resend:' .. b, at)
              end
              moment = math.min(moment, at)
            end
          end
        end
      end
    elseif e.state == 'fusing' then
      if now < tonumber(e.fusing_until) then
        moment = tonumber(e.fusing_until)
      elseif e.fusion_reserve and fuse_sent < FUSES and now + e.fusion_reserve <= end_at then
        call_fusion(key, id)
        moment = now + FUSE_EVERY_MS
      else
        act('end', id)
        moment = now + SWEEPER_LEASE_MS
      end
    end
    if now < end_at then moment = math.min(moment, end_at) end
    redis.call('ZADD', KEYS[1], math.max(moment, now + 1), id)
  end
end
for _, action in ipairs(last) do actions[#actions + 1] = action end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return { first[2] and math.max(0, first[2] - now) or -1, unpack(actions) }
