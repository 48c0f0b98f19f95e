-- wrk's side of `python -m bench.http`.
--
-- Arguments: a file of requests made ready (a line each: the body of a POST, the path of a GET),
-- the method, the path of a POST, and the mean of the time, in milliseconds, that a connection
-- waits between an answer and its next request (0: no wait; exponential, as of people who come
-- independently of each other). The lines are sent in their order, and again from the first.
-- The last line of what wrk prints is a JSON object: what was sent, and how it was answered.

-- wrk asks for one request before the first that it sends.
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
    -- Whole milliseconds, rounded up or down at random so that their mean is kept.
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
