-- whole cycles: a push, a pop that leases the message, its ack
local checks = require("checks")
local wire = require("wire")

local queue, push, pop
-- Messages that are stored and that no pop was sent for; ids that no ack was sent for; messages whose
-- ack is not answered. Connections of a thread share them, so whichever is free does what comes next.
local ready, taken, leased = 0, {}, {}

function setup(thread)
  checks.join(thread)
end

function init()
  queue = "wrk-cycle-" .. number
  push = wire.push(queue)
  pop = wire.pop(queue, "&group=g")
end

function request()
  if #taken > 0 then
    return wire.ack(queue, "g", table.remove(taken))
  elseif ready > 0 then
    ready = ready - 1
    return pop
  end
  return push
end

local function on_pop(status, body)
  local id = wire.popped(body)
  if not id or leased[id] then
    checks.fault("a pop", status, body)
    return
  end
  leased[id] = true
  table.insert(taken, id)
  checks.count("pop")
end

local function on_ack(status, body)
  local id = body:match('^{"results":%[{"id":"([^"]+)","outcome":"acked"}%]}$')
  if not id or not leased[id] then
    checks.fault("an ack", status, body)
    return
  end
  leased[id] = nil
  checks.count("ack")
end

function response(status, _, body)
  if status == 201 and body == '{"pushed":1}' then
    ready = ready + 1
    checks.count("push")
  elseif status == 200 and body:find('^{"queue"') then
    on_pop(status, body)
  elseif status == 200 then
    on_ack(status, body)
  else
    checks.fault("a push, pop or ack", status, body)
  end
end

function done(summary)
  checks.verdict(summary, { "push", "pop", "ack" })
end
