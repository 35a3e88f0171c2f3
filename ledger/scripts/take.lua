-- Takes messages that wait in the queues, and makes the first step of each: a branch starts, a fusion joins.  A message for
-- Celery stays at the head of its queue, and one that runs alone too: the worker takes it next.
-- calls  start, join
-- KEYS  queues
-- ARGV  the queue, task and id of the message that the worker already has, each '' if a token has woken it; then for each queue,
--       how many to take
-- ->    {queue, message or '' for the one that the worker already has, answer}...
--       answer: of `start` or `join`; {} if nobody waits for the branch; false if the first message is for neither
local out = {}

local function step(task, id)
  if task == 'chorale.fuse' then return { id = id } end
  local request, branch = string.match(id, '^([^:]+):([^:]+)')
  if branch and string.sub(task, 1, 15) == 'chorale.search.' then return { id = request, branch = branch } end
end

local function read(message)
  local is_json, decoded = pcall(cjson.decode, message)
  local headers = is_json and type(decoded) == 'table' and decoded.headers
  if type(headers) ~= 'table' or type(headers.task) ~= 'string' or type(headers.id) ~= 'string' then return nil end
  -- Celery waits until the one, and drops the message after the other.
  if type(headers.eta) == 'string' or type(headers.expires) == 'string' then return nil end
  return step(headers.task, headers.id)
end

-- A part that was sent again may be the one that ended its worker.  It runs alone, and costs no other part.
local function runs_alone(one)
  if not one or not one.branch then return false end
  local is_read, is_resent = pcall(redis.call, 'HEXISTS', ENTRY .. one.id, 'resent:' .. one.branch)
  return is_read and is_resent == 1
end

local function begin(one)
  if one.branch then return start({ ENTRY .. one.id }, { one.branch }) or {} end
  return join({ ENTRY .. one.id, WAKEUPS }, { one.id, '' })
end

local function take(queue, message, one)
  local answer = false
  if one then
    -- A malformed entry costs no other message; the sweeper sets it aside.
    local is_done, result = try(begin, one)
    answer = is_done and result or {}
  end
  out[#out + 1] = { queue, message, answer }
end

-- A worker with a message in hand takes one that must come alone next; a worker with none takes it now.
local function take_queue(queue, most)
  for _ = 1, most do
    local message = redis.call('RPOP', queue)
    if not message then return false end
    local one = read(message)
    local is_alone = runs_alone(one)
    if one and not is_alone then
      take(queue, message, one)
    elseif #out == 0 then
      take(queue, message, one)
      return true
    else
      redis.call('RPUSH', queue, message)
      return is_alone
    end
  end
  return false
end

local is_woken = ARGV[2] == ''
local first = step(ARGV[2], ARGV[3])
if not is_woken then take(ARGV[1], '', first) end
if runs_alone(first) then return out end
for i, queue in ipairs(KEYS) do
  if take_queue(queue, ARGV[3 + i]) then break end
end
if is_woken then
  local waiting = 0
  for _, queue in ipairs(KEYS) do waiting = waiting + redis.call('LLEN', queue) end
  if waiting == 0 then
    redis.call('DEL', READY) -- further tokens would wake workers for nothing
  elseif redis.call('LLEN', READY) == 0 then
    redis.call('LPUSH', READY, 1)
  end
end
return out
