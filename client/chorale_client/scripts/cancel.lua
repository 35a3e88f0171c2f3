-- Ends a request because its caller no longer wants the answer.
-- KEYS  entry, result, moments, outbox     ARGV  id
-- ->    the result that the request ended with, now or before; false if the request is unknown
local request = redis.call('HGET', KEYS[1], 'request')
if not request then return ended_result(KEYS[2]) end
local now = now_ms()
local result, entry = end_request(ARGV[1], 'client', cancelled_body(request), now)
leave_followers(ARGV[1], entry, now)
return result
