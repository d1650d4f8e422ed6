-- pops with autoAck of single messages, as many as are pushed
local checks = require("checks")
local wire = require("wire")

local push, pop
-- Messages that are stored and that no pop was sent for. Connections of a thread share the queue: a
-- pop is sent only when an answered push has made sure that it finds something.
local ready = 0

function setup(thread)
  checks.join(thread)
end

function init()
  local queue = "wrk-pop-" .. number
  push = wire.push(queue)
  pop = wire.pop(queue, "&group=g&autoAck=true")
end

function request()
  if ready > 0 then
    ready = ready - 1
    return pop
  end
  return push
end

function response(status, _, body)
  local kind = wire.answered(status, body)
  if kind == "push" then
    ready = ready + 1
  end
  checks.judge(kind, "a push or pop", status, body)
end

function done(summary)
  checks.verdict(summary, { "push", "pop" })
end
