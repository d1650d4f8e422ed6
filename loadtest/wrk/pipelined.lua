-- sixteen requests in one write: eight pushes, each with a pop
local checks = require("checks")
local wire = require("wire")

local pairs_per_write = 8

local batch

function setup(thread)
  checks.join(thread)
end

-- The requests of a connection are served in order where they concern one partition, so before every
-- pop at least as many pushes were served as pops: it finds something, whatever others do.
function init()
  local queue = "wrk-pipelined-" .. number
  local pair = wire.push(queue) .. wire.pop(queue, "&partition=Default&group=g&autoAck=true")
  batch = string.rep(pair, pairs_per_write)
end

function request()
  return batch
end

function response(status, _, body)
  checks.judge(wire.answered(status, body), "a push or pop", status, body)
end

-- wrk puts back what a slow answer kept it from sending, and reckons as if each request had a write of
-- its own: its percentiles mean nothing here.
function done(summary)
  io.write("the latencies above are not those of requests: wrk does not know of pipelining\n")
  checks.verdict(summary, { "push", "pop" })
end
