/**
 * A signal during a round or a listing ends it at once. The command says what was and was not done, and leaves nothing
 * half done.
 */
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { captureBaskets, captureExchanges } from '../fixtures/basket-agent.ts';
import { longFrom } from '../long-parts.ts';
import { makeExchange } from '../storage/captured.ts';
import { CliChild } from './child.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** Long enough that the output is many times the capacity of a pipe. */
const LARGE_BYTES = 8 * 1024 * 1024;

let folder = '';
let db = '';
/** A model that never answers, so that a command that asks it is interrupted in the middle. */
let model: Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'interruption-'));
  db = join(folder, 'capture.mdb');
  await captureBaskets(db, 0, 40);
  model = createServer(() => {});
  model.listen(0, '127.0.0.1');
  await once(model, 'listening');
});
afterAll(async () => {
  model.closeAllConnections();
  model.close();
  await once(model, 'close');
  rmSync(folder, { recursive: true, force: true });
});

const env = (): Record<string, string> => ({ DATA_DIR: join(folder, 'data') });
const address = (): string => `http://127.0.0.1:${(model.address() as AddressInfo).port}`;

for (const [at, signal] of SIGNALS.entries())
  describe(signal, longFrom(at, 1), () => {
    it('during a round publishes nothing, and says what is kept', { tags: 'long' }, async () => {
      const out = join(folder, `round-${signal}`);
      const argv = ['loop', '--once', '--db', db, '--out', out, '--student', 'http', '--model', 'm'];
      await using child = new CliChild([...argv, '--endpoint', address()], { env: env() });
      await once(model, 'request');
      child.process.kill(signal);
      const end = await child.ended;
      // A shell shows these signals as 130 and 143.
      expect([end.code, end.signal, end.stdout]).toEqual([null, signal, '']);
      expect(end.stderr).toMatch(
        new RegExp(
          `understudy: interrupted by ${signal}: [^\\n]+; nothing is published in ${out}; ${out}\\.work keeps`,
        ),
      );
      expect(existsSync(join(out, 'manifest.json'))).toBe(false);
      expect(existsSync(out) ? readdirSync(out).filter((name) => name.endsWith('.partial')) : []).toEqual([]);
    });

    it('during a trial of a model says that not all questions were asked', { tags: 'long' }, async () => {
      const argv = ['distill', '--db', db, '--model-url', address(), '--model', 'm'];
      await using child = new CliChild(argv, { env: env() });
      await once(model, 'request');
      child.process.kill(signal);
      const end = await child.ended;
      expect([end.code, end.signal, end.stdout]).toEqual([null, signal, '']);
      expect(end.stderr).toMatch(
        /interrupted by SIG[A-Z]+: [^\n]+; the model was not asked about all steps, and nothing is written\n/,
      );
    });

    it('while inspect writes says that the output is incomplete', async () => {
      const large = join(folder, `large-${signal}.mdb`);
      const request_body = Buffer.from(JSON.stringify({ text: 'x'.repeat(LARGE_BYTES) }));
      await captureExchanges(large, [makeExchange({ request_body })]);
      await using child = new CliChild(['inspect', '--db', large, '--exchange', '1', '--raw', 'request'], {
        env: env(),
      });
      // After this output the command waits for its reader.
      await child.waitForOutput(/xxx/);
      child.process.stdout!.pause();
      child.process.kill(signal);
      await once(child.process, 'exit');
      child.process.stdout!.resume();
      const end = await child.ended;
      expect([end.code, end.signal]).toEqual([null, signal]);
      expect(end.stderr).toBe(`understudy: interrupted by ${signal}: the output is incomplete\n`);
      expect(end.stdout.length).toBeLessThan(LARGE_BYTES);
    });
  });
