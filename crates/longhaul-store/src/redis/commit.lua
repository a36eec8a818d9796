-- What several reads have come to is written here, if everything read is still as it was: in blocks, each of which is done as
-- a whole or not at all. A block begins with what must hold; then come its writes. What is answered for each block begins with
-- 0 (done), 1 (something has changed), 2 (an id is taken) or 3 (there is no room, and how much there is).
local said, at = {}, 1
local function take() at = at + 1; return ARGV[at - 1] end
local function key() return KEYS[tonumber(take())] end
local function top(k)
  local found = redis.call('ZRANGE', k, '-1', '-1', 'WITHSCORES')
  return tonumber(found[2] or '0')
end
while at <= #ARGV do
  local stop, now = tonumber(take()), {0}
  while at < stop do
    local op = take()
    if op == 'same' then
      local k, field, was = key(), take(), take()
      if (redis.call('HGET', k, field) or '') ~= was then now = {1}; at = stop end
    elseif op == 'free' then
      if redis.call('EXISTS', key()) == 1 then now = {2}; at = stop end
    elseif op == 'room' then
      local full, found = false, {3, 0, 0, 0, 0, 0, 0}
      for i = 1, 4 do
        local many, most = redis.call('ZCARD', key()), tonumber(take())
        found[i + 1] = many
        if many >= most then full = true end
      end
      if full then now = found; at = stop end
    elseif op == 'share' then
      local set, open, most = key(), key(), tonumber(take())
      local many = redis.call('ZCARD', set)
      -- What a release has ended that knows nothing of shares is in there still.
      if many >= most then many = redis.call('ZINTERSTORE', set, 2, set, open, 'WEIGHTS', 1, 0) end
      if many >= most then now = {3, 0, 0, 0, 0, many, 0}; at = stop end
    elseif op == 'bytes' then
      local many, more, most = tonumber(redis.call('HGET', key(), take()) or '0'), tonumber(take()), tonumber(take())
      if many + more > most then now = {3, 0, 0, 0, 0, 0, many}; at = stop end
    elseif op == 'new' then
      local row, id, seq = key(), take(), redis.call('INCR', KEYS[1])
      local tasks, open, tasks_of, open_of = key(), key(), key(), key()
      local nth = top(tasks_of) + 1
      redis.call('HSET', row, 's', seq)
      redis.call('ZADD', tasks, seq, id)
      redis.call('ZADD', open, seq, id)
      redis.call('ZADD', tasks_of, nth, id)
      redis.call('ZADD', open_of, nth, id)
      now[#now + 1] = seq
    elseif op == 'number' then
      local seq = redis.call('INCR', KEYS[1])
      redis.call('HSET', key(), 's', seq)
      now[#now + 1] = seq
    elseif op == 'count' then
      local k, field, by = key(), take(), take()
      if redis.call('HINCRBY', k, field, by) <= 0 then redis.call('HDEL', k, field) end
    elseif op == 'tell' then
      local channel, own, words = take(), take(), take()
      local heard = redis.call('PUBSUB', 'NUMSUB', channel, own)
      if heard[2] > heard[4] then redis.call('PUBLISH', channel, words) end
    else
      local many, k, args = tonumber(take()), key(), {}
      for i = 1, many do args[i] = take() end
      redis.call(op, k, unpack(args))
    end
  end
  said[#said + 1] = now
end
return said
