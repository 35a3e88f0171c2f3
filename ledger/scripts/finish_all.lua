-- Several terminal writes in one call.  The outcomes of each request are counted if this write was its first.
-- calls  finish, outcomes
-- ARGV  for each request: id, by, tail, '1' if every question is complete, number of arguments for `outcomes`, these
-- ->    {milliseconds since acceptance or false, {name, 'opened' | 'closed'}...}...
local out, i = {}, 1
while i <= #ARGV do
  local count = tonumber(ARGV[i + 4])
  local took = finish({ ENTRY .. ARGV[i] }, { unpack(ARGV, i, i + 3) })
  local turned = {}
  if took and count > 0 then
    -- The request has ended; an error of a breaker must not hide that.
    local is_counted, found = pcall(outcomes, {}, { unpack(ARGV, i + 5, i + 4 + count) })
    if is_counted then turned = found end
  end
  out[#out + 1] = { took, turned }
  i = i + 5 + count
end
return out
