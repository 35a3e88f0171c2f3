-- Several terminal writes in one call.  The outcomes of each request are counted if this write was its first.
-- calls  finish, outcomes
-- ARGV  for each request: those of `finish`, number of arguments for `outcomes`, these
-- ->    {milliseconds since acceptance or false, {name, 'opened' | 'closed'}...}...
local out, i = {}, 1
while i <= #ARGV do
  local count = tonumber(ARGV[i + 7])
  -- A malformed entry keeps no other request from its end.
  local is_done, took = try(finish, { ENTRY .. ARGV[i] }, { unpack(ARGV, i, i + 6) })
  took = is_done and took
  local turned = {}
  if took and count > 0 then
    -- The request has ended; an error of a breaker must not hide that.
    local is_counted, found = pcall(outcomes, {}, { unpack(ARGV, i + 8, i + 7 + count) })
    if is_counted then turned = found end
  end
  out[#out + 1] = { took, turned }
  i = i + 8 + count
end
return out
