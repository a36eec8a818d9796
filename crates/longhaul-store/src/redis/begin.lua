-- Begins a stream behind a number. KEYS: the stream, its session, all streams by when they end. ARGV: its name, the number, when
-- it ends.
redis.call('HSET', KEYS[1], 'last', ARGV[2], 'bytes', 0, 'ends', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
return 1
