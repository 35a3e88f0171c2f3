-- Makes the group of the drainers, which gets every entry.  Another drainer may have made it a moment ago.
-- KEYS  outbox     ARGV  name of the group
-- A deletion stands first, of an id that no entry has: Redis over `maxmemory` refuses writes only to a script that has not written yet.
redis.call('XDEL', KEYS[1], '0-1')
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
