-- The script that wrk runs for `python -m bench.http`.
--
-- Arguments: a file of prepared requests (each line is the body of a POST, or the path of a GET), the
-- method, the path of POST requests, and the mean time in ms that a connection waits between an
-- answer and its next request. 0 means no wait; otherwise the waits have an exponential
-- distribution, like those of independent users. The lines are sent in order, again and again.
-- The last line of the output is a JSON object with the numbers of requests and answers.

-- wrk calls `request` once before the first request that it sends.
sent = -1

local ready = {}
local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  local file, method, path, wait_ms = args[1], args[2], args[3], tonumber(args[4])
  local headers = { ["content-type"] = "application/json" }
  for line in io.lines(file) do
    if method == "POST" then
      ready[#ready + 1] = wrk.format(method, path, headers, line)
    else
      ready[#ready + 1] = wrk.format(method, line)
    end
  end
  if wait_ms > 0 then
    math.randomseed(1)
    -- Whole milliseconds, rounded up or down at random, so that the mean stays the same.
    function delay()
      return math.floor(-wait_ms * math.log(1 - math.random()) + math.random())
    end
  end
end

function request()
  local line = math.max(sent, 0) % #ready + 1
  sent = sent + 1
  return ready[line]
end

function done(summary, latency)
  local all = 0
  for _, thread in ipairs(threads) do
    all = all + thread:get("sent")
  end
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local form = '{"sent":%d,"answered":%d,"failed":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d}\n'
  io.write(string.format(form, all, summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99)))
end
