/**
 * A writer process for the kill test: appends without end, and prints the committed id after each append. Own process;
 * arguments: the database's path, and its key in hex if it has one.
 */
import { writeSync } from 'node:fs';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from './captured.ts';

const [, , path, key] = process.argv;
const data_key = key === undefined ? null : Buffer.from(key, 'hex');
const log = await CaptureLog.open({ path: path!, redact: true, data_key, decode: decodeExchange });
const messages: string[] = [];
for (let id = log.stats().last_id + 1; ; ) {
  const batch = Array.from({ length: 1 + (id % 7) }, (_, i) => {
    messages.push(`message ${id + i} ${'lorem '.repeat((id + i) % 300)}`);
    if (messages.length > 40) messages.splice(0, 20);
    const body = Buffer.from(JSON.stringify({ id: id + i, messages }));
    return makeExchange({
      run_id: 'r',
      seq: id + i,
      request_body: body,
      response_body: Buffer.from(`answer ${id + i}`),
    });
  });
  const { last_id } = await log.append(batch);
  // The write is synchronous, so that an id that was printed before the kill arrives.
  writeSync(1, `${last_id}\n`);
  id = last_id + 1;
}
