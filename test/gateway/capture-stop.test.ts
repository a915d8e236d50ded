/** At a stop each server thread prints one line about what it could not store. */
import { spawnSync } from 'node:child_process';
import { expect, it, onTestFinished } from 'vitest';
import { readStats, startGatewayProcess, waitForStats } from '../fixtures/capture-gateway.ts';
import { answerCall, makeCall } from '../fixtures/capture-traffic.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { makeFolder } from '../storage/folder.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;

async function startGateway() {
  const upstream = await startRawUpstream({});
  onTestFinished(() => upstream.close());
  upstream.script = { onRequest: answerCall };
  const folder = makeFolder();
  const started = await startGatewayProcess(upstream.url, folder);
  onTestFinished(() => started[Symbol.asyncDispose]());
  const { child, url, port } = started;
  const makeCalls = async (count: number) => {
    for (let at = 0; at < count; at++) await makeCall(port, { run: `run-${at}`, seq: 1, stream: false });
  };
  return { child, url, makeCalls };
}

it.skipIf(!hasPrlimit)(
  'a stop with a writer that cannot write reports how many exchanges are lost',
  async () => {
    const { child, url, makeCalls } = await startGateway();
    await makeCalls(3);
    const { writer } = await waitForStats(url, ({ exchanges }) => exchanges.captured === 3);
    const pids = [child.process.pid, writer.process?.pid].filter((pid) => pid !== undefined && pid !== null);
    for (const pid of pids) spawnSync('prlimit', ['--pid', String(pid), '--fsize=1:']);
    await makeCalls(100);
    await waitForStats(url, ({ reasons }) => reasons.some(({ reason }) => reason === 'disk_full'));
    const { exchanges } = await readStats(url);
    const left = exchanges.attempted - exchanges.captured;
    expect(left).toBeGreaterThan(50);
    child.process.kill('SIGTERM');
    const { code, stderr } = await child.ended;
    expect(code).toBe(0);
    // The writer may have some of these exchanges at that moment.
    const told = stderr.matchAll(
      /"msg":"(\d+) exchanges were not stored before the process ended(?:; the writer has \d+ of them [^:]*)?: Nothing is stored now: the disk is full/g,
    );
    expect([...told].reduce((sum, [, count]) => sum + Number(count), 0)).toBe(left);
  },
);
