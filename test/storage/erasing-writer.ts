/**
 * A writer process for the tests of erasures and rewrites during traffic: appends without end, and carries out orders.
 * With a bucket it sends sealed files there at once. It prints a line for each action: `append LAST_ID`, `erased
 * STEPS`, `rewritten STEPS`, `offloaded FILES` (all sealed files) or `failed WHY`. Own process. Arguments: the
 * database's path; its key in hex, or `-`; the step of an order or of the sending at which the process kills itself (0:
 * never); the bucket.
 */
import { writeSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { decodeExchange } from '../../src/providers/decode.ts';
import { hasOrder } from '../../src/storage/capture/erase-order.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { findRewriteOrder } from '../../src/storage/capture/rewrite-order.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { makeExchange } from './captured.ts';

const [, , path, key, killAt, bucket] = process.argv;
let steps = 0;
await claimWriter(path!, { patience_ms: 5_000 });
const log = await CaptureLog.open({
  path: path!,
  redact: true,
  data_key: key === '-' ? null : Buffer.from(key!, 'hex'),
  decode: decodeExchange,
  has_text_index: true,
  ...(bucket !== undefined && { bucket: { place: bucket, keep: { age_ms: -60_000 } } }),
  fault: (point) => {
    if (point !== 'erase' && !point.startsWith('offload')) return;
    if (++steps === Number(killAt)) process.kill(process.pid, 'SIGKILL');
  },
});
const say = (line: string) => writeSync(1, `${line}\n`);
let isBusy = false;
let isSending = false;

async function send(): Promise<void> {
  isSending = true;
  try {
    await log.offloadSome();
    const { offloaded_files, waiting_files } = log.stats().bucket!;
    if (waiting_files === 0 && offloaded_files === log.stats().sealed) say(`offloaded ${offloaded_files}`);
  } catch (thrown) {
    say(`failed ${(thrown as Error).message}`);
  }
  isSending = false;
}

for (let turn = log.stats().last_id + 1; ; ) {
  const messages = [{ role: 'user', content: `said at turn ${turn} ${'lorem ipsum '.repeat(turn % 60)}` }];
  const body = Buffer.from(JSON.stringify({ model: 'm', system: 'be brief '.repeat(50), messages }));
  const exchange = makeExchange({ run_id: `live-${turn % 3}`, seq: turn, request_body: body });
  const { last_id } = await log.append([exchange]);
  say(`append ${last_id}`);
  turn = last_id + 1;
  await log.tidySome(decodeExchange, 5);
  const kind = hasOrder(path!) ? 'erase' : findRewriteOrder(path!);
  if (!isBusy && kind !== null) {
    isBusy = true;
    (kind === 'erase' ? log.eraseOrdered() : log.rewriteOrdered())
      .then(
        () => say(`${kind === 'erase' ? 'erased' : 'rewritten'} ${steps}`),
        (thrown: Error) => say(`failed ${thrown.message}`),
      )
      .finally(() => {
        isBusy = false;
      });
  }
  if (bucket !== undefined && !isSending) void send();
  await nextTick();
}
