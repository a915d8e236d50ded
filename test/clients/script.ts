/** The fake provider's answers in the client tests: the text of the last message chooses the answer. Pure. */
import { echoScript, type Script } from '../../src/demo/script.ts';

/**
 * A text whose length in bytes differs from its length in characters. It also contains characters that SSE and JSON
 * use as syntax, and must still arrive unchanged.
 */
export const LONG_TEXT = Array.from(
  { length: 40 },
  (_, i) => `Zeile ${i}: „größer“ → 数 🙂 data: {"x":"\\n"}\n`,
).join('');

/** Token counts of the answers to `think`. They differ from an estimate, so tests can distinguish reported usage. */
export const THINK_USAGE = { input: 1234, output: 56, cache_read: 1000, cache_write: 78 };

/** The answer to `hold` stops after this many frames. */
const HOLD_FRAMES = 5;

/**
 * Chooses the answer by the text. `fail 429`: an error with that status. `think`: thinking, text, and fixed usage.
 * `long`: LONG_TEXT. `hold`: a stream that stops and stays open. `break`: a stream that ends with the provider's error
 * event. Anything else: the echo script.
 */
export const clientScript: Script = (request) => {
  const fail = /^fail (\d{3})$/.exec(request.text);
  if (fail !== null) {
    const status = Number(fail[1]);
    const waits: Record<number, number> = { 429: 7, 529: 0 };
    const wait = waits[status];
    const message = `scripted ${status}`;
    return { error: wait === undefined ? { status, message } : { status, message, retry_after_s: wait } };
  }
  switch (request.text) {
    case 'think':
      return { thinking: 'First this, then that.', text: 'Done thinking.', usage: THINK_USAGE };
    case 'long':
      return { text: LONG_TEXT };
    case 'hold':
      return { text: LONG_TEXT, hold_after_frames: HOLD_FRAMES };
    case 'break':
      return { text: 'One two three.', stream_error: 'scripted break' };
    default:
      return echoScript(request);
  }
};
