-- Ten metrics a call, to the runs whose ids are the lines of a file.
local runs, n = {}, 0

function init(args)
  for line in io.lines(args[1]) do runs[#runs + 1] = line end
end

function request()
  n = n + 1
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
