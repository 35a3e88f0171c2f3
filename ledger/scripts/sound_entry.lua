-- Reads an entry for the sweeper.  A caller's login can write any entry: one that is malformed is set aside.
-- KEYS  entry, quarantine     ARGV  id
-- ->    the fields as a table, or nil if the entry is gone or was set aside; why it was set aside
local MOST_QUARANTINED, QUARANTINE_MS = 1000, 86400000
local id = ARGV[1]
local is_read, flat = pcall(redis.call, 'HGETALL', KEYS[1])
if not is_read then
  local message = type(flat) == 'table' and flat.err or tostring(flat)
  -- Any other error, such as a missing right, says nothing about the entry.
  if not string.find(message, 'WRONGTYPE', 1, true) then error(message) end
  flat = false
elseif #flat == 0 then
  return nil
end

local NEEDED = { 'state', 'request', 'fingerprint', 'head', 'accepted_at', 'deadline', 'answer_ttl' }
local NEEDED_BY_STATE = {
  planned = { 'plan', 'left', 'join_at', 'finish_reserve', 'fusion_reserve' },
  fusing = { 'fusing_until' },
  following = { 'leader' },
}
local NUMBERS = {}
for name in string.gmatch('accepted_at deadline answer_ttl join_at left finish_reserve fusion_reserve fusing_until '
  .. 'retrieve_sent fuse_sent followed leader_late limit resend resent started lease hedge hedged again', '%S+') do
  NUMBERS[name] = true
end

local function is_whole(value)
  return #value <= 15 and string.find(value, '^%-?%d+$')
end

local function flaw(e)
  if #id > 128 or not string.find(id, '^%w[%w._-]*$') then return 'not an id' end
  if not e then return 'not a hash' end
  for _, names in ipairs({ NEEDED, NEEDED_BY_STATE[e.state] or {} }) do
    for _, name in ipairs(names) do
      if not e[name] then return 'no ' .. name end
    end
  end
  for field, value in pairs(e) do
    -- `limit:bm25` is a number as `deadline` is.
    if NUMBERS[string.match(field, '^[%l_]+')] and not is_whole(value) then
      return string.sub(field, 1, 80) .. ' is no whole number'
    end
  end
  if tonumber(e.answer_ttl) < 1 then return 'answer_ttl is below 1' end
end

local e = flat and as_table(flat)
local why = flaw(e)
if not why then return e end
redis.call('DEL', KEYS[1])
redis.call('ZREM', WAKEUPS, id)
if redis.call('HLEN', KEYS[2]) < MOST_QUARANTINED then redis.call('HSET', KEYS[2], string.sub(id, 1, 128), why) end
redis.call('PEXPIRE', KEYS[2], QUARANTINE_MS)
return nil, why
