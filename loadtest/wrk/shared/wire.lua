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
  return post("push", string.format('{"queue":"%s","messages":[{"payload":%s}]}', queue, wire.payload))
end

-- `more` is the rest of the query: "&autoAck=true".
function wire.pop(queue, more)
  return wrk.format("GET", base .. "/pop?queue=" .. queue .. more)
end

function wire.ack(queue, group, id)
  return post("ack", string.format('{"queue":"%s","group":"%s","acks":[{"id":"%s"}]}', queue, group, id))
end

-- The id of the only message of a pop's answer, if the message is one that wire.push() sent and was
-- never delivered before.
function wire.popped(body)
  local id, payload = body:match('"messages":%[{"id":"([^"]+)","partition":"Default","attempts":1,"payload":(.+)}%]}$')
  return payload == wire.payload and id or nil
end

return wire
