-- Keeps a stream for longer, and gives the number of its newest event. KEYS: the stream, all streams by when they end. ARGV: its
-- name, the time, and when it ends. Nothing if there is none.
local found = redis.call('HMGET', KEYS[1], 'last', 'ends')
local ends = tonumber(found[2] or '0')
if ends <= tonumber(ARGV[2]) then return false end
if tonumber(ARGV[3]) > ends then
  redis.call('HSET', KEYS[1], 'ends', ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
end
return tonumber(found[1])
