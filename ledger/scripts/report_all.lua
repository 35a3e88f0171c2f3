-- Several reports in one call.
-- calls  report, join
-- ARGV  '1' to join the requests that are complete and whose callback nobody pushes; then for each report those of `report`
-- ->    {the outcome of each}, {the answers of `join`, without the branch results that the caller has just brought, and with a
--       sixth value: the branches of these}
local out, joined, brought = {}, {}, {}
for i = 2, #ARGV, 8 do
  local id, branch, result = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  -- A malformed entry costs no other report.
  local is_done, outcome = try(report, { ENTRY .. id, WAKEUPS }, { unpack(ARGV, i, i + 7) })
  out[#out + 1] = is_done and outcome or 'closed'
  brought[id] = brought[id] or {}
  brought[id][branch] = result
  if ARGV[1] == '1' and outcome == 'due' then
    local is_joined, answer = try(join, { ENTRY .. id, WAKEUPS }, { id, '' })
    if is_joined and answer[5] then
      local other, own = {}, {}
      for at = 1, #answer[5], 2 do
        local field, value = answer[5][at], answer[5][at + 1]
        local of = string.match(field, '^result:(.*)')
        if of and brought[id][of] == value then
          own[#own + 1] = of
        else
          other[#other + 1], other[#other + 2] = field, value
        end
      end
      joined[#joined + 1] = { answer[1], answer[2], answer[3], answer[4], other, own }
    end
  end
end
return { out, joined }
