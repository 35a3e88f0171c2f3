-- Moves an entry that cannot be written to the unreadable entries, unless it is gone: an erased entry stays erased.
-- KEYS  outbox, unreadable entries     ARGV  id of the entry, maximum number of unreadable entries, field, value...
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 1 then
  -- Added first: a full Redis refuses it, and the entry stays in the outbox.
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 3))
  redis.call('XDEL', KEYS[1], ARGV[1])
end
