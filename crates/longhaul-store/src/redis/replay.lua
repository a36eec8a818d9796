-- The events of a stream behind one, oldest first. KEYS: the stream, its events. ARGV: the time, the number of the one, the most
-- events and the bytes after which no more come. Nothing if there is a gap.
local found = redis.call('HMGET', KEYS[1], 'last', 'ends')
if tonumber(found[2] or '0') <= tonumber(ARGV[1]) then return false end
local last, after = tonumber(found[1]), tonumber(ARGV[2])
local first = last - redis.call('LLEN', KEYS[2])
if after > last or after < first then return false end
local texts, bytes = {}, 0
for i = after - first, math.min(last - first, after - first + tonumber(ARGV[3])) - 1 do
  local text = redis.call('LINDEX', KEYS[2], i)
  texts[#texts + 1] = text
  bytes = bytes + #text
  if bytes >= tonumber(ARGV[4]) then break end
end
return texts
