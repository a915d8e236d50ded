/**
 * A writer process for the kill test: appends without end and says after each append which id is committed. Own process;
 * argument: the database's path.
 */
import { writeSync } from 'node:fs';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from './captured.ts';

const log = await CaptureLog.open({ path: process.argv[2]!, redact: true });
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
  // Synchronous: what was said before the kill arrives.
  writeSync(1, `${last_id}\n`);
  id = last_id + 1;
}
