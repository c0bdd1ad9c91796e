-- Ten metrics a call to runs of one file, and after nine such calls a run of another file is read.
-- Each connection waits so many milliseconds between its calls.
local runs, ended, pause, n = {}, {}, 0, 0

function init(args)
  for line in io.lines(args[1]) do runs[#runs + 1] = line end
  for line in io.lines(args[2]) do ended[#ended + 1] = line end
  pause = tonumber(args[3])
end

function delay() return pause end

function request()
  n = n + 1
  if n % 10 == 0 then
    return wrk.format("GET", "/api/2.0/mlflow/runs/get?run_id=" .. ended[1 + n % #ended])
  end
  local metrics = {}
  for i = 1, 10 do
    metrics[i] = string.format('{"key":"metric%d","value":%.9f,"timestamp":%d,"step":%d}',
      i, math.random(), 1700000000000 + n, n)
  end
  local body = '{"run_id":"' .. runs[1 + n % #runs] .. '","metrics":[' ..
    table.concat(metrics, ",") .. "]}"
  return wrk.format("POST", "/api/2.0/mlflow/runs/log-batch",
    {["Content-Type"] = "application/json"}, body)
end
