/**
 * Runs an agent in several ways, each as a run, and prints the result of each as JSON. Without `SVC_BASE_URL` the agent
 * runs without the client. It runs in a new project after `npm install`.
 */
import { Understudy } from '@understudy-gateway/client';

export const url = process.env.PROVIDER_URL;
export const isWatched = process.env.SVC_BASE_URL !== undefined;

/** Makes an error comparable: its class, name, message and status. */
function tellError(thrown) {
  const { name, message, status, statusCode } = thrown;
  return { kind: thrown.constructor.name, name, message, status, statusCode };
}

async function settle(work) {
  try {
    return { value: await work() };
  } catch (thrown) {
    return { error: tellError(thrown) };
  }
}

/** @param ways the agent's functions by name; `read` of a function's result is called after the scope of its run */
export async function tryAll(ways) {
  const understudy = isWatched ? new Understudy({ apiKey: 'k', onWarning: console.error }) : null;
  const outcomes = {};
  for (const [runId, way] of Object.entries(ways)) {
    // Skips this run if the version of the SDK does not close the run's resources by itself.
    if (process.env.LEFT_OUT === runId) continue;
    outcomes[runId] = await settle(async () => {
      const begun = await (understudy === null
        ? way()
        : understudy.run({ runId }, async () => ({ value: await way() })));
      const value = understudy === null ? begun : begun.value;
      return typeof value?.read === 'function' ? value.read() : value;
    });
    await understudy?.flush();
  }
  await understudy?.close();
  console.log(JSON.stringify(outcomes));
}

export function search({ query }) {
  if (query === 'bad') throw new TypeError('no such index');
  return `found ${query}`;
}

/**
 * Cuts a stream's text after `two`, where the agent aborts the stream. How much more it has read depends on how the
 * bytes arrived.
 */
export function untilAbort(text) {
  return text.slice(0, text.indexOf('two') + 'two'.length);
}
