-- Whether a queue's server has room for a message.  A quarter of its memory is reserved for requests.
-- KEYS  queue     ARGV  size of the message (bytes)     ->  nil if there is room, else {percent in use, messages in the queue}
local memory = redis.call('INFO', 'memory')
local limit = tonumber(string.match(memory, 'maxmemory:(%d+)'))
local used = tonumber(string.match(memory, 'used_memory:(%d+)'))
if limit == 0 or used + ARGV[1] <= 0.75 * limit then return nil end
return { math.floor(100 * used / limit), redis.call('LLEN', KEYS[1]) }
