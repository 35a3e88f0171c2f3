-- Moves entries from the outbox to the stream of ends with callbacks.  An entry that is not in the outbox was moved or erased before.
-- KEYS  outbox, ends with callbacks     ARGV  maximum number of these, ids of the entries
for place = 2, #ARGV do
  local entry = redis.call('XRANGE', KEYS[1], ARGV[place], ARGV[place])[1]
  -- Deleted first: Redis over `maxmemory` refuses writes only to a script that has not written yet.
  if entry and redis.call('XDEL', KEYS[1], ARGV[place]) == 1 then
    local fields = as_table(entry[2])
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], '*', 'id', fields.id, 'ended_at', fields.ended_at,
      'request', fields.request, 'answer', fields.answer)
  end
end
