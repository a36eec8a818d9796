// Runs checks one after another and reports each as a line of the Test Anything Protocol.

/** How long one check may take, in milliseconds. */
const LIMIT = 60_000;

/**
 * Runs the checks, `[name, async function]` each, and returns whether all passed. A check passes by returning and
 * fails by throwing; one that takes too long fails, and the next begins.
 */
export async function report(title, checks) {
  console.log(`1..${checks.length}`);
  let failures = 0;
  for (const [index, [name, check]] of checks.entries()) {
    const label = `${index + 1} - ${title}: ${name}`;
    try {
      await within(LIMIT, check());
      console.log(`ok ${label}`);
    } catch (error) {
      failures += 1;
      console.log(`not ok ${label}`);
      for (const line of explain(error).split("\n")) console.log(`#   ${line}`);
    }
  }
  return failures === 0;
}

/** The promise's outcome, or an error when it takes longer than `limit` milliseconds. */
export async function within(limit, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came within ${limit / 1000} s`)), limit);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function explain(error) {
  if (!(error instanceof Error)) return `threw ${JSON.stringify(error)}`;
  const cause = error.cause instanceof Error ? `\ncaused by ${error.cause.message}` : "";
  return `${error.stack ?? error.message}${cause}`;
}
