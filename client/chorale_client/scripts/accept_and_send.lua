-- `accept`, and the message for the planners if the request is new.  For a broker that is the ledger's Redis.
-- calls  accept
-- KEYS  those of `accept`, the queue     ARGV  those of `accept`, the message     ->  as `accept`
local answer = accept(KEYS, ARGV)
if answer[1] == 'accepted' then redis.call('LPUSH', KEYS[6], ARGV[11]) end
return answer
