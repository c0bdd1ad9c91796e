-- Requests from a file: a line with method and path each, and below it the body or nothing.
local requests, n = {}, 0

function init(args)
  local head
  for line in io.lines(args[1]) do
    if head == nil then
      head = line
    else
      local method, path = head:match("(%S+) (.+)")
      local headers = {["Content-Type"] = "application/json"}
      requests[#requests + 1] = wrk.format(method, path, headers, line ~= "" and line or nil)
      head = nil
    end
  end
end

function request()
  n = n + 1
  return requests[1 + n % #requests]
end
