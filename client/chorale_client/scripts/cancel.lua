-- Ends a request because its caller no longer wants the answer.
-- KEYS  entry, result, moments, outbox     ARGV  id, body up to its list of questions, one question
-- ->    the result that the request ended with, now or before; false if the request is unknown
local request = redis.call('HGET', KEYS[1], 'request')
if not request then return redis.call('GET', KEYS[2]) end
local is_read, read = pcall(cjson.decode, request)
local questions = string.rep(ARGV[3] .. ',', is_read and #read.questions or 0)
local body = ARGV[2] .. string.sub(questions, 1, -2) .. ']}'
local now = now_ms()
local result, entry = end_request(ARGV[1], 'client', body, now)
leave_followers(ARGV[1], entry, now)
return result
