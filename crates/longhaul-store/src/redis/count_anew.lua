-- Counts anew what an owner is charged for its tasks: a release that knows nothing of that removes some without a word. KEYS: what
-- owners are charged, and the owner's tasks. ARGV: the owner, and how the keys of tasks begin.
local charged = 0
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  charged = charged + tonumber(redis.call('HGET', ARGV[2] .. id, 'k') or '0')
end
if charged > 0 then redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', charged)) else redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
