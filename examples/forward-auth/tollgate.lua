-- Asks Tollgate about a request: `http-request lua.tollgate URL` in a configuration of HAProxy.
--
-- Sets txn.tollgate to "allowed", or to "unknown" if there was no decision. A request that is denied is answered.

local WITHIN_MS = 500

-- Headers of the client that the rules use (forward_auth), in lower case.
local PASSED = { "x-api-key" }

-- Headers of the answer that belong to the connection to Tollgate, or that HAProxy sets itself.
local OWN = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["date"] = true }

-- All lines of a header as one, with commas between them.
local function line(headers, name)
    local values = headers[name]
    if values == nil then return nil end
    local joined = values[0]
    for n = 1, #values do joined = joined .. "," .. values[n] end
    return joined
end

core.register_action("tollgate", { "http-req" }, function(txn, url)
    txn:set_var("txn.tollgate", "unknown")
    local theirs = txn.http:req_get_headers()
    local before = line(theirs, "x-forwarded-for")
    local client = txn.f:src()
    local asked = {
        ["x-forwarded-for"] = { before and before .. ", " .. client or client },
        ["x-forwarded-method"] = { txn.f:method() },
        ["x-forwarded-uri"] = { txn.f:pathq() },
        ["x-forwarded-host"] = { line(theirs, "host") },
    }
    for _, name in ipairs(PASSED) do
        local value = line(theirs, name)
        if value then asked[name] = { value } end
    end
    local answer = core.httpclient():get({ url = url, headers = asked, timeout = WITHIN_MS })
    if answer == nil then return end
    if answer.status == 200 then
        txn:set_var("txn.tollgate", "allowed")
        return
    end
    if answer.status ~= 429 then return end
    local reply = txn:reply({ status = answer.status, body = answer.body })
    for name, values in pairs(answer.headers) do
        if not OWN[name] then
            for _, value in pairs(values) do reply:add_header(name, value) end
        end
    end
    txn:done(reply)
end, 1)
