-- Several reports in one call.
-- calls  report, join
-- ARGV  '1' to join the requests that are complete and whose callback nobody pushes; then for each report those of `report`
-- ->    {the outcome of each}, {the answers of `join`, with a report's number from 0 in place of the envelope that it brought}
local out, joined, brought = {}, {}, {}

-- The caller has read these envelopes.
local function without_brought(id, flat)
  for at = 2, #flat, 2 do
    local i = brought[id .. flat[at - 1]]
    if i and ARGV[i + 3] == flat[at] then flat[at] = (i - 2) / 8 end
  end
end

for i = 2, #ARGV, 8 do
  -- A malformed entry costs no other report.
  local is_done, outcome = try(report, { ENTRY .. ARGV[i], WAKEUPS }, { unpack(ARGV, i, i + 7) })
  out[#out + 1] = is_done and outcome or 'closed'
  brought[ARGV[i] .. 'envelope:' .. ARGV[i + 1]] = i
  if ARGV[1] == '1' and outcome == 'due' then
    local is_joined, found = try(join, { ENTRY .. ARGV[i], WAKEUPS }, { ARGV[i], '' })
    if is_joined then
      without_brought(ARGV[i], found[5] or {})
      joined[#joined + 1] = found
    end
  end
end
return { out, joined }
