/**
 * Writes a recorded answer with its timing. The capture records when the first and the last byte arrived; the events
 * of a stream are spread evenly in between. Command line.
 */

import type { ServerResponse } from 'node:http';
import { setTimeout as pauseFor } from 'node:timers/promises';
import type { RecordedAnswer, RecordedExchange } from './recorded-run.ts';

/** Minimum pause; events that are due within this time are written together. */
const LEAST_PAUSE_MS = 2;

/**
 * Sends a recorded answer.
 * @param speed a multiple of the recorded speed; 0: without pauses
 * @param pause waits; replaced in tests
 */
export async function writeAnswer(
  response: ServerResponse,
  { status, first_byte_ms, duration_ms, aborted }: RecordedExchange,
  { headers, body }: RecordedAnswer,
  speed: number,
  pause: (ms: number) => Promise<unknown> = pauseFor,
): Promise<void> {
  const scale = speed === 0 ? 0 : 1 / speed;
  const wait = async (ms: number): Promise<void> => {
    if (ms * scale > 0) await pause(ms * scale);
  };
  await wait(first_byte_ms);
  // Status 0: in the capture, the connection broke before the answer.
  if (status === 0) {
    response.destroy();
    return;
  }
  const pieces = splitEvents(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
  if (pieces.length <= 1 && !aborted) {
    await wait(duration_ms - first_byte_ms);
    response.writeHead(status, [...headers.flat(), 'content-length', String(body.byteLength)]);
    response.end(body);
    return;
  }
  response.writeHead(status, headers.flat());
  const step = (duration_ms - first_byte_ms) / Math.max(1, pieces.length);
  let due = 0;
  let flushed = Promise.resolve();
  for (const piece of pieces) {
    due += step;
    if (response.destroyed) return;
    flushed = new Promise((resolve) => {
      response.write(piece, () => resolve());
    });
    if (response.writableNeedDrain) await drained(response);
    if (due * scale < LEAST_PAUSE_MS) continue;
    await wait(due);
    due = 0;
  }
  if (!aborted) {
    response.end();
    return;
  }
  // The bytes must be written first, because destroying a response discards unwritten bytes.
  await Promise.race([flushed, new Promise((resolve) => response.once('close', resolve))]);
  response.destroy();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once('drain', resolve).once('close', resolve);
  });
}

/** Splits a stream into its events, each with its empty line. Any other body is one piece. */
function splitEvents(body: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  let from = 0;
  while (from < body.length) {
    const plain = body.indexOf('\n\n', from);
    const windows = body.indexOf('\r\n\r\n', from);
    if (plain < 0 && windows < 0) break;
    const end = windows >= 0 && (plain < 0 || windows < plain) ? windows + 4 : plain + 2;
    pieces.push(body.subarray(from, end));
    from = end;
  }
  if (from < body.length) pieces.push(body.subarray(from));
  return pieces;
}
