-- Adds an event to a stream, and lets the oldest go whose room it needs. KEYS: the stream, its events, its session, all streams
-- by when they end, the bytes of owners, the bytes in all. ARGV: its name, the owner, the text, the time, when it ends, the most
-- events, the most bytes, the most of the owner, the most in all, and what each takes beside its text.
local stream, events, session, streams, owners, all = unpack(KEYS)
local name, owner, text = ARGV[1], ARGV[2], ARGV[3]
local now, ends, most, most_bytes = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local most_own, most_all, beside = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local found = redis.call('HMGET', stream, 'last', 'bytes', 'ends')
local last, freed = tonumber(found[1] or '0'), tonumber(found[2] or '0')
local lives = tonumber(found[3] or '0') > now
if not lives then last = 0 end
local count = lives and redis.call('LLEN', events) or 0
local bytes, gone, room = lives and freed or 0, 0, #text + beside
while count > 0 and (count >= most or bytes + room > most_bytes) do
  bytes = bytes - #redis.call('LINDEX', events, gone) - beside
  gone = gone + 1
  count = count - 1
end
bytes = bytes + room
local own = tonumber(redis.call('HGET', owners, owner) or '0') - freed + bytes
local total = tonumber(redis.call('GET', all) or '0') - freed + bytes
if bytes > freed and (own > most_own or total > most_all) then return {0, own, total} end
if lives then
  if gone > 0 then redis.call('LTRIM', events, gone, -1) end
else
  redis.call('DEL', events)
end
redis.call('RPUSH', events, text)
redis.call('HSET', stream, 'last', last + 1, 'bytes', bytes, 'ends', ends)
redis.call('SADD', session, name)
redis.call('ZADD', streams, ends, name)
redis.call('HSET', owners, owner, own)
redis.call('SET', all, total)
return {last + 1, own, total}
