-- Prolongs leases: of each task whose holder shows the epoch that it holds it at. What is answered are those that are not held so.
local leases, until_, version = KEYS[1], ARGV[1], ARGV[2]
local lost = {}
for i = 2, #KEYS do
  local at = 3 + (i - 2) * 2
  local id, epoch = ARGV[at], ARGV[at + 1]
  local found = redis.call('HMGET', KEYS[i], 'h', 'l')
  if found[1] == epoch then
    if tonumber(found[2]) < tonumber(until_) then
      redis.call('HSET', KEYS[i], 'l', until_, 'v', version)
      redis.call('ZADD', leases, until_, id)
    end
  else
    lost[#lost + 1] = id
  end
end
return lost
