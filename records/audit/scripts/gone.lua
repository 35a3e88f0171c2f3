-- KEYS  outbox     ARGV  ids of entries     ->  ids of the entries that are no longer in the outbox
local gone = {}
for _, entry in ipairs(ARGV) do
  if #redis.call('XRANGE', KEYS[1], entry, entry) == 0 then gone[#gone + 1] = entry end
end
return gone
