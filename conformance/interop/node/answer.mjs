// Reading what a tool answered.

import assert from "node:assert/strict";

/** The text of a result, its blocks joined. */
export function textOf(result) {
  return (result.content ?? [])
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("\n");
}

/** The result, which must not be an error. */
export function success(result) {
  assert.notEqual(result.isError, true, `the tool failed: ${textOf(result)}`);
  return result;
}

/**
 * What a call failed with: `{code, text}` of a protocol error, or `{text}` of a result that says `isError`. A call
 * that succeeds fails the check.
 */
export async function failure(call) {
  let result;
  try {
    result = await call;
  } catch (error) {
    assert.equal(typeof error.code, "number", `not a protocol error: ${error.stack}`);
    return { code: error.code, text: error.message };
  }
  assert.equal(result.isError, true, `the call succeeded: ${JSON.stringify(result)}`);
  return { text: textOf(result) };
}

/** Progress must rise, never pass its total, and say what it is about. */
export function assertRises(progress, least) {
  assert.ok(progress.length >= least, `${progress.length} notifications where at least ${least} were due`);
  for (const [index, { progress: value, total }] of progress.entries()) {
    assert.ok(index === 0 || value > progress[index - 1].progress, `fell: ${JSON.stringify(progress)}`);
    assert.ok(total === undefined || value <= total, `passed its total: ${JSON.stringify(progress)}`);
  }
}
