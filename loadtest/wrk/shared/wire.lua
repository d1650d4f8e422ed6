-- The requests that scripts send, as text.

local wire = {}

local base = "/api/v1/ephemeral"
local json = { ["Content-Type"] = "application/json" }

-- A payload of 256 bytes: a JSON string.
wire.payload = '"' .. string.rep("x", 254) .. '"'

local function post(verb, body)
  return wrk.format("POST", base .. "/" .. verb, json, body)
end

function wire.configure(queue, options)
  return post("configure", string.format('{"queue":"%s","options":%s}', queue, options))
end

function wire.push(queue)
  local body = '{"queue":"%s","messages":[{"payload":%s}]}'
  return post("push", string.format(body, queue, wire.payload))
end

-- `more` is the rest of the query: "&autoAck=true".
function wire.pop(queue, more)
  return wrk.format("GET", base .. "/pop?queue=" .. queue .. more)
end

function wire.ack(queue, group, id)
  local body = '{"queue":"%s","group":"%s","acks":[{"id":"%s"}]}'
  return post("ack", string.format(body, queue, group, id))
end

-- The id of the only message of a pop's answer, if the message is one that wire.push() sent and was
-- never delivered before.
function wire.popped(body)
  local message = '{"id":"([^"]+)","partition":"Default","attempts":1,"payload":(.+)}'
  local id, payload = body:match('"messages":%[' .. message .. "%]}$")
  return payload == wire.payload and id or nil
end

-- Whether an answer is the right one to "push" or to "pop"; nil if to neither.
function wire.answered(status, body)
  if status == 201 and body == '{"pushed":1}' then
    return "push"
  end
  return status == 200 and wire.popped(body) and "pop" or nil
end

return wire
