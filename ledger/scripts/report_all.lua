-- Several reports in one call.
-- calls  report
-- ARGV  for each report: id, branch, status, envelope, attempt, accepted_at or '', callback or ''     ->  the outcome of each
local out = {}
for i = 1, #ARGV, 7 do
  out[#out + 1] = report({ ENTRY .. ARGV[i], MOMENTS }, { unpack(ARGV, i, i + 6) })
end
return out
