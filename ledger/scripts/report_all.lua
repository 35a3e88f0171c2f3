-- Several reports in one call.
-- calls  report, join
-- ARGV  '1' to join the requests that are complete and whose callback nobody pushes; then for each report those of `report`
-- ->    {the outcome of each}, {the answers of `join`, with 1 in place of each branch result that the caller has just brought}
local out, joined, brought = {}, {}, {}
for i = 2, #ARGV, 8 do
  -- A malformed entry costs no other report.
  local is_done, outcome = try(report, { ENTRY .. ARGV[i], WAKEUPS }, { unpack(ARGV, i, i + 7) })
  out[#out + 1] = is_done and outcome or 'closed'
  brought[ARGV[i] .. ' result:' .. ARGV[i + 1]] = ARGV[i + 3]
  if ARGV[1] == '1' and outcome == 'due' then
    local is_joined, answer = try(join, { ENTRY .. ARGV[i], WAKEUPS }, { ARGV[i], '' })
    local flat = is_joined and answer[5] or {}
    for at = 2, #flat, 2 do
      if flat[at] == brought[ARGV[i] .. ' ' .. flat[at - 1]] then flat[at] = 1 end
    end
    if is_joined then joined[#joined + 1] = answer end
  end
end
return { out, joined }
