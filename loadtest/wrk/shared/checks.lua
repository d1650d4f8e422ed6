-- What every script does: counts answers and faults in each thread, sums them up at the end. The
-- launcher takes a run for good only if its output has the line `verdict: ok`.

local checks = {}

-- wrk reads these from the thread's state at the end, so they are globals.
counted = {}
fault_count = 0
first_fault = nil

local threads = {}

-- For setup(): remembers the thread, which finds its number (from 1) as the global `number`.
function checks.join(thread)
  table.insert(threads, thread)
  thread:set("number", #threads)
end

-- An answer of this kind was right.
function checks.count(kind)
  counted[kind] = (counted[kind] or 0) + 1
end

-- An answer was not what it should be.
function checks.fault(text, status, body)
  fault_count = fault_count + 1
  if not first_fault then
    first_fault = string.format("%s: %s %s", text, tostring(status), tostring(body))
  end
end

-- An answer to what was `asked` was right if it is of some kind.
function checks.judge(kind, asked, status, body)
  if kind then
    checks.count(kind)
  else
    checks.fault(asked, status, body)
  end
end

-- For done(): what was counted, and the verdict. Of each of `kinds` there must be some.
function checks.verdict(summary, kinds)
  local faults, first, sums = 0, nil, {}
  for _, thread in ipairs(threads) do
    faults = faults + thread:get("fault_count")
    first = first or thread:get("first_fault")
    for kind, count in pairs(thread:get("counted")) do
      sums[kind] = (sums[kind] or 0) + count
    end
  end
  for _, kind in ipairs({ "connect", "read", "write", "status", "timeout" }) do
    local count = summary.errors[kind]
    if count > 0 then
      faults = faults + count
      first = first or string.format("%d errors of wrk: %s", count, kind)
    end
  end
  local seconds = summary.duration / 1e6
  for _, kind in ipairs(kinds) do
    local count = sums[kind] or 0
    if count == 0 then
      faults = faults + 1
      first = first or ("no answer: " .. kind)
    end
    io.write(string.format("%s: %d, %.0f/s\n", kind, count, count / seconds))
  end
  if faults == 0 then
    io.write("verdict: ok\n")
  else
    io.write(string.format("verdict: %d faults, the first one: %s\n", faults, first))
  end
end

return checks
