-- Makes, replaces or removes an entry. KEYS: the entry, the names of its kind, all entries by when they end, how many of them
-- owners have, the numbers of changes. ARGV: its word, its name, the owner or nothing, the time, what is expected (a version,
-- "" for no entry, "any"), what is to be done (put, remove), the value, when it ends or "inf", the most of an owner, the most in all.
local entry, names, entries, owners, versions = unpack(KEYS)
local word, name, owner, now, expected, act = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local value, ends, most_own, most = ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local found = redis.call('HMGET', entry, 'version', 'ends', 'value')
local lives = found[1] and (found[2] == 'inf' or tonumber(found[2]) > now)
if expected ~= 'any' and expected ~= (lives and found[1] or '') then
  if lives then return {'found', found[1], found[2], found[3]} end
  return {'found'}
end
if act == 'remove' then
  if found[1] then
    redis.call('DEL', entry)
    redis.call('ZREM', names, name)
    redis.call('ZREM', entries, word)
    if owner ~= '' and redis.call('HINCRBY', owners, owner, -1) <= 0 then redis.call('HDEL', owners, owner) end
  end
  return {'done'}
end
if not found[1] then
  local all, own = redis.call('ZCARD', entries), 0
  if owner ~= '' then own = tonumber(redis.call('HGET', owners, owner) or '0') end
  if all >= most or (owner ~= '' and own >= most_own) then return {'full', tostring(own), tostring(all)} end
  if owner ~= '' then redis.call('HINCRBY', owners, owner, 1) end
end
local version = redis.call('INCR', versions)
redis.call('HSET', entry, 'version', version, 'ends', ends, 'value', value)
redis.call('ZADD', names, 0, name)
redis.call('ZADD', entries, ends, word)
return {'done', tostring(version), ends, value}
