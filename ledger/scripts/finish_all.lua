-- Several terminal writes in one call.  The outcomes of each request are counted if this write was its first.
-- calls  finish, outcomes
-- ARGV  for each request: number of arguments for `finish`, number of those for `outcomes`, these of `finish`, these of `outcomes`
-- ->    {milliseconds since acceptance or false, {name, 'opened' | 'closed'}...}...
local out, i = {}, 1
while i <= #ARGV do
  local ends, count = ARGV[i] + 0, ARGV[i + 1] + 0
  i = i + 2
  -- A malformed entry keeps no other request from its end.
  local is_done, took = try(finish, { ENTRY .. ARGV[i] }, { unpack(ARGV, i, i + ends - 1) })
  took = is_done and took
  local turned = {}
  if took and count > 0 then
    -- The request has ended; an error of a breaker must not hide that.
    local is_counted, transitions = pcall(outcomes, {}, { unpack(ARGV, i + ends, i + ends + count - 1) })
    if is_counted then turned = transitions end
  end
  out[#out + 1] = { took, turned }
  i = i + ends + count
end
return out
