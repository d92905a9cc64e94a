-- Replaces the whole content of a hash of rules by names and texts (ARGV, alternating).
-- The version is computed from them, so two hashes with the same version have the same content. The length before each
-- part keeps the parts apart. A key that is not a hash fails here, before anything is written.
local before = redis.call('HGET', KEYS[1], 'version')
local parts = {}
for n, part in ipairs(ARGV) do
  parts[n] = #part .. ':' .. part
end
local version = redis.sha1hex(table.concat(parts))
redis.call('DEL', KEYS[1])
for n = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[n], ARGV[n + 1])
end
redis.call('HSET', KEYS[1], 'version', version)
return { version, before == version and 'as before' or 'new' }
