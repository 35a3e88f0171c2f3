-- How far a request is, without the answers of its branches.
-- KEYS  entry, result
-- ->    {state, branch, its status or '', ...} | {'ended', result} | false if the request is unknown
local entry = redis.call('HGETALL', KEYS[1])
if #entry == 0 then
  local result = ended_result(KEYS[2])
  return result and { 'ended', result }
end
entry = as_table(entry)
local progress = { entry.state }
for field in pairs(entry) do
  if string.sub(field, 1, 6) == 'limit:' then
    local branch = string.sub(field, 7)
    progress[#progress + 1] = branch
    progress[#progress + 1] = entry['status:' .. branch] or ''
  end
end
return progress
