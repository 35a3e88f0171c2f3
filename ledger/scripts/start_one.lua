-- `start` for one message.  Nobody waits for a part of a malformed entry, which the sweeper sets aside.
-- calls  start
-- KEYS, ARGV, ->  those of `start`
local is_done, answer = try(start, KEYS, ARGV)
return is_done and answer
