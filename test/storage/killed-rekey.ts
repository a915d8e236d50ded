/**
 * A change of the data key for the kill test: kills itself with SIGKILL at the given step, or prints how many there
 * were. Own process; arguments: the folder, the old key and the new one in hex or `none`, the step.
 */
import { join } from 'node:path';
import { decodeExchange } from '../../src/providers/decode.ts';
import { rekeyData } from '../../src/storage/rekey.ts';

const [, , folder = '', from = '', to = '', at = ''] = process.argv;
const keyOf = (text: string) => (text === 'none' ? null : Buffer.from(text, 'hex'));
let steps = 0;
await rekeyData(
  {
    data_dir: folder,
    capture_db: join(folder, 'capture.mdb'),
    from: keyOf(from),
    to: keyOf(to),
    decode: decodeExchange,
  },
  () => {
    if (++steps === Number(at)) process.kill(process.pid, 'SIGKILL');
  },
);
process.stdout.write(`${steps}\n`);
