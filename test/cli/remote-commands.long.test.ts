/**
 * Commands over captures in a bucket (s3rver), on a machine that captured none of them. As in use, a separate process
 * reads the captures and fetches the bodies.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { basketExchanges } from '../fixtures/basket-agent.ts';
import { BUCKET, openS3, S3_ENVIRONMENT } from '../fixtures/s3-server.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild, runCli } from './child.ts';

const RUNS = 30;

/** Stores runs and sends them to the bucket, as a gateway does. */
async function send(place: string): Promise<void> {
  const before = { ...process.env };
  onTestFinished(() => {
    for (const name of Object.keys(S3_ENVIRONMENT)) delete process.env[name];
    Object.assign(process.env, before);
  });
  Object.assign(process.env, S3_ENVIRONMENT);
  const log = await CaptureLog.open({
    path: join(makeFolder(), 'capture.mdb'),
    redact: true,
    decode: decodeExchange,
    bucket: { place, keep: 'all' },
  });
  await log.append(Array.from({ length: RUNS }, (_, at) => basketExchanges(at)).flat());
  await log.rotate();
  await log.offloadSome();
  expect(log.stats().bucket).toMatchObject({ waiting_files: 0 });
  await log.close();
}

it('trace, replay, distill and loop read a bucket, and say so when it cannot be reached', async () => {
  const s3 = await openS3();
  const db = `s3://${BUCKET}/captures-of-commands?endpoint=${s3.endpoint}`;
  await send(db);
  const folder = makeFolder();
  const env = { ...S3_ENVIRONMENT, DATA_DIR: join(folder, 'data') };
  const out = join(folder, 'runs.jsonl');

  const traced = await runCli(['trace', '--db', db, '--out', out], env);
  expect(traced, traced.stderr).toMatchObject({ code: 0 });
  const lines = readFileSync(out, 'utf8').trim().split('\n');
  expect(lines).toHaveLength(RUNS);
  expect(lines[0]).toContain('Please settle the basket');

  const agent = join(folder, 'agent.mjs');
  writeFileSync(
    agent,
    `const said = await fetch(process.env.ANTHROPIC_BASE_URL + '/v1/messages', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': process.env.ANTHROPIC_API_KEY },
      body: process.argv[2],
    });
    console.log('agent got', said.status);`,
  );
  const first = basketExchanges(3)[0]!.request_body!.toString();
  const argv = ['replay', 'run-3', '--db', db, '--speed', '0', '--', process.execPath, agent, first];
  await using replayed = new CliChild(argv, { env });
  const ended = await replayed.ended;
  expect(ended, ended.stderr).toMatchObject({ stdout: expect.stringContaining('agent got 200\n1 of ') });

  const distilled = await runCli(['distill', '--db', db, '--out', join(folder, 'distilled'), '--json'], env);
  expect(distilled, distilled.stderr).toMatchObject({ code: 0 });
  expect(JSON.parse(distilled.stdout)).toMatchObject({ golden: RUNS });

  const student = join(folder, 'student');
  const round = await runCli(['loop', '--once', '--json', '--db', db, '--out', student], env);
  expect(round, round.stderr).toMatchObject({ code: 0 });
  expect(JSON.parse(round.stdout)).toMatchObject({ outcome: 'published', golden: RUNS, read: RUNS });
  expect(existsSync(join(student, 'manifest.json'))).toBe(true);

  await using looping = new CliChild(['loop', '--db', db, '--out', student, '--every', '1h'], { env });
  await looping.waitForOutput(/kept version 1: nothing new since version 1/);
  looping.process.kill('SIGTERM');
  expect(await looping.ended).toMatchObject({ code: 0, stderr: '' });

  await s3.stop();
  for (const command of [
    ['trace', '--db', db, '--out', join(folder, 'more.jsonl')],
    ['loop', '--once', '--db', db, '--out', student],
  ])
    expect(await runCli(command, env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^understudy: [^\n]*cannot be reached[^\n]*\n$/),
    });
});
