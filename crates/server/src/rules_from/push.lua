-- Puts names and texts (ARGV, in turn) in the place of all that a hash of rules holds.
-- The version follows from them: two hashes of one version hold the same. Lengths keep parts apart.
-- A key that is no hash ends it here, before anything is written.
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
