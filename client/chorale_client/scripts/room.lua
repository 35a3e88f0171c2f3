-- Whether a queue's server has room for a message: a quarter of its memory stays for requests.
-- KEYS  the queue     ARGV  bytes that the message takes     -> none, or {percent in use, messages in the queue}
local memory = redis.call('INFO', 'memory')
local limit = tonumber(string.match(memory, 'maxmemory:(%d+)'))
local used = tonumber(string.match(memory, 'used_memory:(%d+)'))
if limit == 0 or used + ARGV[1] <= 0.75 * limit then return nil end
return { math.floor(100 * used / limit), redis.call('LLEN', KEYS[1]) }
