/**
 * The client for edge functions: its bundle contains none of Node's modules, and runs on a platform with little more
 * than `fetch`.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as client from '../../src/client/edge/edge.ts';
import { bundleEdge } from '../../tools/packages.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { readCases } from './client-cases.ts';
import { startService } from './scripted-service.ts';

/** The parts of Workers and edge functions that the client uses. */
const PLATFORM = {
  fetch,
  URL,
  URLSearchParams,
  TextEncoder,
  TextDecoder,
  AbortController,
  AbortSignal,
  ReadableStream,
  setTimeout,
  clearTimeout,
  crypto: globalThis.crypto,
  performance: { now: () => performance.now() },
  console,
};

let dir: string;
let code: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-edge-'));
  await bundleEdge(join(dir, 'edge.cjs'));
  code = readFileSync(join(dir, 'edge.cjs'), 'utf8');
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function load(more: object = {}): typeof client {
  const module = { exports: {} };
  runInContext(`((module) => {${code}\n})`, createContext({ ...PLATFORM, ...more }))(module);
  return module.exports as typeof client;
}

describe('the client for edge functions', () => {
  it('imports no module', () => {
    expect(code).not.toMatch(/\brequire\(|\bnode:/);
  });

  it('sends runs, and retrieves patterns and findings', async () => {
    const fields = { situation: 's', dead_ends: '', unlock: 'u' };
    const traces = [{ tier: 'e2', pattern_id: 'p', similarity: 1, fields }];
    const service = await startService(200, { traces, finding_id: 'f', findings: [] });
    const { Understudy } = load();
    const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url, timeoutMs: PATIENCE_MS });
    const failing = understudy.run({ runId: 'r', task: 't' }, async (run) => {
      expect(await run.patterns()).toContain('u');
      run.step({ action: 'look', observation: 'x'.repeat(200_000) });
      expect(await understudy.findings('base').store('c')).toBe('f');
      throw new RangeError('too far');
    });
    await expect(failing).rejects.toThrow('too far');
    expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
    const paths = service.asked.map(({ path }) => path).sort();
    expect(paths).toEqual([
      '/v1/findings/base',
      '/v1/monitor/runs',
      '/v1/monitor/runs/r/finish',
      '/v1/monitor/runs/r/steps',
      '/v1/traces/retrieve',
    ]);
    expect(service.asked.at(-1)!.body).toEqual({ outcome: 'failure: RangeError' });
  });

  it('never rejects if no service listens', async () => {
    const warned: unknown[] = [];
    const { Understudy } = load();
    const onWarning = (warning: unknown) => warned.push(warning);
    const understudy = new Understudy({ apiKey: 'k', baseUrl: 'http://127.0.0.1:1', onWarning });
    const result = await understudy.run({ task: 't' }, async (run) => {
      run.step({ action: 'look' });
      return [await run.patterns(), await understudy.findings('base').recall('q')];
    });
    expect(JSON.stringify(result)).toBe('["",[]]');
    expect(await understudy.close({ timeoutMs: 1 })).toBe(false);
  });

  it('knows the current run, and also after an await if the platform has AsyncLocalStorage', async () => {
    const { AsyncLocalStorage } = await import('node:async_hooks');
    for (const [more, isKept] of [
      [{}, false],
      [{ AsyncLocalStorage }, true],
    ] as const) {
      const { Understudy, currentRun } = load(more);
      const understudy = new Understudy({ apiKey: 'k', liveStreamingEnabled: false });
      await understudy.run({ runId: 'r' }, async (run) => {
        expect(currentRun()).toBe(run);
        await new Promise((resolve) => setImmediate(resolve));
        expect(currentRun() === run).toBe(isKept);
      });
      expect(currentRun()).toBeNull();
    }
  });

  it('assigns the same arms as both other clients', () => {
    const { assignArm } = load();
    const cases = readCases<{ experiment_id: string; unit: string; arm: string }[]>('experiment-arms');
    for (const { experiment_id, unit, arm } of cases) expect(assignArm(experiment_id, unit)).toBe(arm);
  });
});
