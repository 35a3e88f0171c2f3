-- Lengths and oldest messages of queues.
-- KEYS  queues     ->  {now, {length, oldest message or false}...}
local reply = { now_ms() }
for _, queue in ipairs(KEYS) do
  reply[#reply + 1] = { redis.call('LLEN', queue), redis.call('LINDEX', queue, -1) }
end
return reply
