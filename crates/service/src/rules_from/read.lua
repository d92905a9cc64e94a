-- Returns the texts of a hash of rules, unless its version is the known one (ARGV[4], if given). Since this is one
-- script, no write comes in between, and content that is too large is refused before it is read.
local max_bytes, max_together, max_texts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local version = redis.call('HGET', KEYS[1], 'version')
if not version then
  return { redis.call('EXISTS', KEYS[1]) == 1 and 'unversioned' or 'absent' }
end
if version == ARGV[4] then
  return { 'unchanged' }
end
if redis.call('HLEN', KEYS[1]) - 1 > max_texts then
  return { 'many' }
end
local names, together = redis.call('HKEYS', KEYS[1]), 0
for _, name in ipairs(names) do
  local bytes = redis.call('HSTRLEN', KEYS[1], name)
  if bytes > max_bytes then
    return { 'large', name }
  end
  together = together + bytes
end
if together > max_together then
  return { 'large' }
end
local reply = { 'texts', version }
for _, name in ipairs(names) do
  if name ~= 'version' then
    reply[#reply + 1] = name
    reply[#reply + 1] = redis.call('HGET', KEYS[1], name)
  end
end
return reply
