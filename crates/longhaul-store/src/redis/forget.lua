-- Removes a stream, if it ends by a time. KEYS as those of append.lua. ARGV: its name, the owner, the time.
local stream, events, session, streams, owners, all = unpack(KEYS)
local found = redis.call('HMGET', stream, 'bytes', 'ends')
if not found[1] or tonumber(found[2]) > tonumber(ARGV[3]) then return 0 end
redis.call('DEL', stream, events)
redis.call('SREM', session, ARGV[1])
redis.call('ZREM', streams, ARGV[1])
if redis.call('HINCRBY', owners, ARGV[2], -found[1]) <= 0 then redis.call('HDEL', owners, ARGV[2]) end
redis.call('DECRBY', all, found[1])
return 1
