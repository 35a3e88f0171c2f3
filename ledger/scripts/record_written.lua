-- Records documents that a message has written, if an older message of the namespace is not done.
-- KEYS  messages that are not done, documents that were written
-- ARGV  this message's stamp, the stamp before which messages were given up, kept for (s), document ids
-- ->    1 if an older message is not done
-- A deletion stands first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[2])
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if not oldest then
  redis.call('UNLINK', KEYS[2])
  return 0
end
-- Nobody asks about documents that are older than every waiting message.  At most a thousand, to keep the script short.
local outdated = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', oldest, 'LIMIT', 0, 1000)
if #outdated > 0 then redis.call('ZREM', KEYS[2], unpack(outdated)) end
if tonumber(oldest) >= tonumber(ARGV[1]) then return 0 end
for i = 4, #ARGV do redis.call('ZADD', KEYS[2], 'GT', ARGV[1], ARGV[i]) end
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
