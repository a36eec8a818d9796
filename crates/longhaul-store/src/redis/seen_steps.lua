-- A task and its steps at one moment, but for what they have come to, which may be large. KEYS: the task, its steps. ARGV: the
-- fields of the task. The words that are looked for are a step's own: in a text of JSON there is a backslash before each quote,
-- no name of a member before `state` is like it, and what is behind a value is short.
local learnt = '{"Learnt":{"value":'
local steps = redis.call('HVALS', KEYS[2])
for i, step in ipairs(steps) do
  local _, state = string.find(step, '"state":', 1, true)
  if state and string.sub(step, state + 1, state + #learnt) == learnt then
    local value = state + #learnt
    local last = math.max(value + 1, #step - 160)
    local is_error = string.match(string.sub(step, last), '.*()"is_error":')
    if is_error then
      steps[i] = string.sub(step, 1, value) .. 'null,' .. string.sub(step, last + is_error - 1)
    end
  end
end
return {redis.call('HMGET', KEYS[1], unpack(ARGV)), steps}
