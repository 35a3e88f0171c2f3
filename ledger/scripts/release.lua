-- Releases the followers of a request that has ended.  A follower gets the same answer if the answer is complete, or if
-- the follower has too little time left for a plan of its own.  The others are planned anew, and the first of them leads.
-- KEYS  followers of the leader
-- ARGV  coalescing key that a worker signed, or '' if no follower may have the answer; body, '1' if every question is complete
local followers = redis.call('HGETALL', KEYS[1])
if #followers == 0 then return end
redis.call('DEL', KEYS[1])
local now = now_ms()

local function release(id, coalescing_key)
  local f = redis.call('HMGET', ENTRY .. id, 'state', 'accepted_at', 'deadline')
  if f[1] ~= 'following' then return end
  -- A leader's caller can change the leader's entry: each follower waits under the coalescing key that its own planner found.
  if coalescing_key == ARGV[1] and (ARGV[3] == '1' or f[3] - now < REPLAN_SHARE * (f[3] - f[2])) then
    end_request(id, 'leader', ARGV[2], now)
  else
    redis.call('HSET', ENTRY .. id, 'state', 'accepted', 'retrieve_sent', 0)
    redis.call('ZADD', WAKEUPS, now, id)
  end
end

-- A malformed entry keeps no other follower from its answer.
for i = 1, #followers, 2 do try(release, followers[i], followers[i + 1]) end
