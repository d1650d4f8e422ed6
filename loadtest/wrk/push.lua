-- single pushes into full queues that drop their oldest message
local checks = require("checks")
local wire = require("wire")

-- At a bounded size every push evicts one message: a load of any length fits.
local options = '{"maxLength":1024,"policy":"dropOldest"}'

local declare, push
local is_declared = false

function setup(thread)
  checks.join(thread)
end

function init()
  local queue = "wrk-push-" .. number
  declare = wire.configure(queue, options)
  push = wire.push(queue)
end

-- wrk throws the first request away that it asks for, so the queue counts as declared when an answer
-- says so.
function request()
  return is_declared and push or declare
end

function response(status, _, body)
  if status ~= 201 then
    checks.fault("a push or configure", status, body)
  elseif body == '{"pushed":1}' then
    checks.count("push")
  elseif body:find('"declared":true', 1, true) then
    is_declared = true
  else
    checks.fault("a push or configure", status, body)
  end
end

function done(summary)
  checks.verdict(summary, { "push" })
end
