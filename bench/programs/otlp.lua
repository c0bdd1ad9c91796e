-- A trace of ten spans a call: one OTLP request from a file, each time with another id.
local before, after, experiment = {}, "", ""

function init(args)
  math.randomseed(os.time() + math.floor(os.clock() * 1e6))
  experiment = args[2]
  local rest = io.open(args[1], "rb"):read("*a")
  while true do
    local from, to = rest:find("TRACEIDTRACEIDXX", 1, true)
    if from == nil then break end
    before[#before + 1] = rest:sub(1, from - 1)
    rest = rest:sub(to + 1)
  end
  after = rest
end

function request()
  local id = {}
  for i = 1, 16 do id[i] = string.char(math.random(1, 255)) end
  local trace, parts = table.concat(id), {}
  for i = 1, #before do parts[#parts + 1] = before[i] .. trace end
  local headers = {["Content-Type"] = "application/x-protobuf",
    ["x-mlflow-experiment-id"] = experiment}
  return wrk.format("POST", "/v1/traces", headers, table.concat(parts) .. after)
end
