-- Stands in front of every script: the clock, and the one way a request ends.  Names in capitals are declared before
-- this text, from `chorale_client.keys` and `chorale_client.protocol_constants`.

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- UTC, without the zone.  A Redis script does not know the calendar: days since 1970-01-01 to a civil date (Hinnant's algorithm).
local function iso_8601(ms)
  local seconds = math.floor(ms / 1000)
  local days, rest = math.floor(seconds / 86400), seconds % 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d', year, month, day,
    math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60, ms % 1000)
end

-- Milliseconds kept for the terminal write of a request without a plan.  Every time in here is whole milliseconds.
local function finish_reserve(timeout)
  return math.min(LONGEST_FINISH_RESERVE_MS, math.floor(timeout * FINISH_RESERVE_PERCENT / 100))
end

local function as_table(flat)
  local t = {}
  for i = 1, #flat, 2 do t[flat[i]] = flat[i + 1] end
  return t
end

-- Entries in the outbox, as a share of its limit.  From BRIEF_FROM_SHARE on new entries have no candidates; from 1 on no
-- request is accepted.
local function outbox_share()
  local limit = tonumber(redis.call('GET', OUTBOX_LIMIT)) or DEFAULT_OUTBOX_LIMIT
  return limit > 0 and redis.call('XLEN', OUTBOX) / limit or 0
end

-- Calls a step of one entry; returns whether it succeeded, and its answer.  A malformed entry costs no other entry its step.
-- A refusal by Redis itself, such as one of a full server, is raised: the entry is not at fault.  Redis 7.0 says of a missing
-- right not NOPERM, as other versions do, but "The user executing the script can't ...".
local function try(step, keys, args)
  local is_done, result = pcall(step, keys, args)
  if not is_done then
    local message = type(result) == 'table' and result.err or tostring(result)
    for _, refusal in ipairs({ 'OOM ', 'MISCONF ', 'READONLY ', 'NOREPLICAS ', 'NOPERM ', 'The user executing the script' }) do
      if string.find(message, refusal, 1, true) then error(message) end
    end
  end
  return is_done, result
end

-- Names and values of an entry for the outbox: Lua passes on only a few thousand at once.
local MOST_FIELDS = 256

local function cancelled_body(request)
  local is_read, read = pcall(cjson.decode, request)
  local questions = string.rep(CANCELLED_QUESTION .. ',', is_read and #read.questions or 0)
  return CANCELLED_UNTIL_QUESTIONS .. string.sub(questions, 1, -2) .. ']}'
end

-- What Celery's `AsyncResult` reads of a task that has not ended with an answer: a request in flight, or a part.
-- `children`, `date_done` and `result` are JSON.
local function task_meta(id, status, children, date_done, result)
  return '{"status":"' .. status .. '","traceback":null,"children":' .. children .. ',"date_done":' .. date_done .. ',"task_id":"'
    .. id .. '","result":' .. result .. '}'
end

-- Whether a result is that of a request in flight, which `plan` has stored.
local function is_started(result)
  return result and string.sub(result, 1, #STARTED_RESULT) == STARTED_RESULT
end

-- The result of a request that has ended, or that was revoked; false for a request in flight.
local function ended_result(key)
  local result = redis.call('GET', key)
  return not is_started(result) and result
end

-- How long the results of a request in flight are kept: as long as an answer at its deadline.
local function result_ttl_ms(now, deadline, answer_ttl)
  return math.max(1, deadline - now + answer_ttl)
end

-- The state of a part that has ended, for `AsyncResult` and for whoever waits for it.  `reason`: why it failed, or nil.
local function end_part(id, branch, status, reason, now, ttl_ms)
  local key, part = RESULT .. id .. ':' .. branch, id .. ':' .. branch
  local result = reason and '{"exc_type":"StageFailure","exc_message":["' .. reason .. '"],"exc_module":null}'
    or '{"status":"' .. status .. '"}'
  local meta = task_meta(part, reason and 'FAILURE' or 'SUCCESS', '[]', '"' .. iso_8601(now) .. '+00:00"', result)
  redis.call('SET', key, meta, 'PX', ttl_ms)
  redis.call('PUBLISH', key, meta)
end

-- Whether a worker of an application has marked the request as revoked, which Celery's `revoke()` asks of every worker.  Its
-- JSON is Celery's own; what the request's end has stored has a fingerprint.
local function is_revoked(result)
  if not result or is_started(result) then return false end
  local is_read, read = pcall(cjson.decode, result)
  return is_read and type(read) == 'table' and read.status == 'REVOKED' and not read.fingerprint
end

-- Puts the head in front of `body` here, so that its times are by this clock and each follower gets its own head.
-- Deletions stand before writes: Redis over `maxmemory` refuses writes only to a script that has not written yet.
-- A revoked request ends as cancelled, whatever `body` says, and keeps Celery's state `REVOKED`.
-- `only_counted`: count the request and write no entry for the audit.  `completed`: text for the audit alone, '' if none.
local function write_end(id, entry, by, body, now, only_counted, completed)
  redis.call('DEL', ENTRY .. id)
  redis.call('ZREM', WAKEUPS, id)
  local ended_at = iso_8601(now)
  local stored = redis.call('GET', RESULT .. id)
  local revoked = is_revoked(stored)
  if revoked then body = cancelled_body(entry.request) end
  local answer = '{' .. entry.head .. ',"ended_at":"' .. ended_at .. 'Z","took_ms":'
    .. string.format('%d', math.max(0, now - entry.accepted_at)) .. ',' .. string.sub(body, 2)
  -- For a child, Celery would subscribe each caller that waits for the answer to the results of all parts.
  local result = '{"status":"SUCCESS","traceback":null,"children":[],"date_done":"' .. ended_at
    .. '+00:00","task_id":"' .. id .. '","fingerprint":"' .. entry.fingerprint .. '","result":' .. answer .. '}'
  if revoked then
    stored = string.sub(stored, 1, -2) .. ',"fingerprint":"' .. entry.fingerprint .. '"}'
    redis.call('SET', RESULT .. id, stored, 'PX', entry.answer_ttl)
  else
    redis.call('SET', RESULT .. id, result, 'PX', entry.answer_ttl)
    redis.call('PUBLISH', RESULT .. id, result)
  end
  if only_counted then
    redis.call('INCR', OUTBOX_REFUSED)
    return result
  end
  local is_filling = outbox_share() >= BRIEF_FROM_SHARE
  local fields = { 'id', id, 'accepted_at', entry.accepted_at, 'ended_at', string.format('%d', now), 'by', by,
    'request', entry.request, 'plan', entry.plan or '', 'answer', answer }
  if (completed or '') ~= '' and not is_filling then
    fields[#fields + 1] = 'completed'
    fields[#fields + 1] = completed
  end
  for field, value in pairs(entry) do
    local limited, reported = string.match(field, '^limit:(.*)'), string.match(field, '^result:(.*)')
    if limited and not entry['status:' .. limited] then
      local reason = entry.decided and 'cancelled' or entry['started:' .. limited] and 'timeout' or 'not_started'
      end_part(id, limited, '', reason, now, entry.answer_ttl)
    elseif reported and #fields < MOST_FIELDS then
      if is_filling and entry['status:' .. reported] == 'ok' then
        value = '{"v":1,"branch":"' .. reported .. '","status":"ok","rankings":[],"left_out":true}'
      end
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  -- A stream refuses new entries after one that a caller has entered under the last possible id.
  if not pcall(redis.call, 'XADD', OUTBOX, '*', unpack(fields)) then redis.call('INCR', OUTBOX_REFUSED) end
  return result
end

-- As `models.plan.is_costly`: only the JSON of a costly plan begins with this field.
local function is_costly(plan)
  return string.sub(plan or '', 1, 8) == '{"cost":'
end

-- The first terminal write wins: it deletes the entry, and without an entry there is nothing to end.
-- `more`: fields that take the place of the entry's.
local function end_request(id, by, body, now, completed, more)
  local entry = as_table(redis.call('HGETALL', ENTRY .. id))
  if not entry.state then return nil end
  for field, value in pairs(more or {}) do entry[field] = value end
  return write_end(id, entry, by, body, now, false, completed), entry
end

-- A caller's login cannot reach the followers of its request.  The sweeper looks at the id once more, and releases them.
local function leave_followers(id, entry, now)
  if entry and entry.coalescing_key then redis.call('ZADD', WAKEUPS, now, id) end
end
