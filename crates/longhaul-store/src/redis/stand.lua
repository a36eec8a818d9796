-- Stands before a family for so many milliseconds: the task KEYS[1] is about, and what it has made, of which the open ones are answered.
redis.call('HSET', KEYS[1], 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[2], 0, -1)
