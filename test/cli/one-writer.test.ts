/**
 * Two gateways and one capture database: the second is refused. one-writer.long.test.ts has the tests with a DATA_DIR
 * and with drains.
 */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { makeFolder } from '../storage/folder.ts';
import { CliChild } from './child.ts';

function startGateway(folder: string, upstream: string): CliChild {
  const child = new CliChild(['gateway'], {
    env: { GW_PORT: '0', DATA_DIR: folder, GW_UPSTREAM_BASE: upstream },
  });
  onTestFinished(() => child[Symbol.asyncDispose]());
  return child;
}

const findUrl = (child: CliChild) => child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);

it('a capture database is refused while another process writes to it', async () => {
  const folder = makeFolder();
  const first = startGateway(folder, 'http://127.0.0.1:9');
  await findUrl(first);
  const { code, stderr, stdout } = await startGateway(folder, 'http://127.0.0.1:9').ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toBe(
    `understudy: the capture database ${join(folder, 'capture.mdb')} cannot be opened: process ${first.process.pid} ` +
      'is writing to this database, which takes one writer. Correct the cause, name another file with --db, or set ' +
      'GW_CAPTURE=off to forward without capture\n',
  );
  await first.kill();
  await findUrl(startGateway(folder, 'http://127.0.0.1:9'));
});
