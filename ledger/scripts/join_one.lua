-- `join` for one message.  A malformed entry is closed; the sweeper sets it aside.
-- calls  join
-- KEYS, ARGV, ->  those of `join`
local is_done, answer = try(join, KEYS, ARGV)
return is_done and answer or { 'closed' }
