-- Adds events as they are, if they follow what is there. KEYS: the stream, its events, its session, all streams by when they end,
-- the bytes of owners, the bytes in all. ARGV: its name, the owner, the number that a new one begins behind, that of the first of
-- these events, when it ends, what each takes beside its text, and the texts.
local stream, events, session, streams, owners, all = unpack(KEYS)
local name, owner, ends, beside = ARGV[1], ARGV[2], ARGV[5], tonumber(ARGV[6])
local found = redis.call('HMGET', stream, 'last', 'bytes')
local last, bytes = tonumber(found[1] or ARGV[3]), tonumber(found[2] or '0')
if last + 1 ~= tonumber(ARGV[4]) then return 0 end
local added = 0
for at = 7, #ARGV do
  redis.call('RPUSH', events, ARGV[at])
  added = added + #ARGV[at] + beside
end
redis.call('HSET', stream, 'last', last + #ARGV - 6, 'bytes', bytes + added, 'ends', ends)
redis.call('SADD', session, name)
redis.call('ZADD', streams, ends, name)
redis.call('HINCRBY', owners, owner, added)
redis.call('INCRBY', all, added)
return 1
