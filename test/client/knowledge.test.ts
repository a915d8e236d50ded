/** What the library gives an agent: patterns, findings, and the arm of an experiment. Against the real service. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { assignArm, estimateTokens, renderPatterns, Understudy } from '../../src/client/understudy.ts';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const SITUATION = 'fix the failing unit tests of the date parser';
const LONG = { timeoutMs: PATIENCE_MS };
let service: ClientService;
let understudy: Understudy;

beforeAll(async () => {
  service = await ClientService.start();
  understudy = new Understudy({ apiKey: CLIENT_KEY, baseUrl: service.url, ...LONG });
  const patterns = [{ situation: SITUATION, dead_ends: 'adding a day', unlock: 'parse as UTC' }];
  await understudy.api.importPatterns({ body: { tier: 'e2', patterns } });
});
afterAll(async () => {
  await understudy.close();
  await service.stop();
});

describe('patterns', () => {
  it('become a text for the system prompt of at most maxTokens tokens', async () => {
    const run = understudy.start({ task: 'unit tests of the date parser fail by one day' });
    const text = await run.patterns();
    expect(text).toContain(`1. Situation: ${SITUATION}`);
    expect(text).toContain('What did not help: adding a day');
    expect(text).toContain('What helped: parse as UTC');
    expect(estimateTokens(text)).toBeLessThanOrEqual(1_000);
    expect(await run.patterns({ maxTokens: 20 })).toBe('');
    expect(await run.patterns({ tier: 'e1' })).toBe('');
    expect(await understudy.start({ task: '' }).patterns()).toBe('');
    expect(await understudy.start({ task: SITUATION }).patterns({ topK: -1 })).toBe('');
  });

  it('are never cut: as many as fit, the best first', () => {
    const pattern = (situation: string) => ({
      tier: 'e2' as const,
      pattern_id: situation,
      similarity: 1,
      fields: { situation, dead_ends: '', unlock: 'u' },
    });
    const text = renderPatterns([pattern('first'), pattern('x'.repeat(900)), pattern('third')], 100);
    expect(text).toMatch(/1\. Situation: first\n {3}What helped: u\n\n2\. Situation: third/);
    expect(text).not.toContain('xx');
    expect(renderPatterns([], 100)).toBe('');
  });

  it('are not requested if they are switched off', async () => {
    const without = new Understudy({ apiKey: CLIENT_KEY, baseUrl: service.url, eTracesEnabled: false });
    expect(await without.start({ task: SITUATION }).patterns()).toBe('');
    expect(without.stats().requests.sent).toBe(0);
    await without.close({ timeoutMs: 1 });
  });
});

describe('a run', () => {
  it('is started even if the service would refuse its metadata', async () => {
    const warned: string[] = [];
    const own = new Understudy({
      apiKey: CLIENT_KEY,
      baseUrl: service.url,
      ...LONG,
      onWarning: ({ message }) => warned.push(message),
    });
    const nest = (levels: number): object => (levels === 1 ? {} : { deep: nest(levels - 1) });
    const many = { of: Array.from({ length: 10_001 }, () => 1) };
    const odd = { '\ud83d': '\ude00', not: Number.NaN };
    for (const [at, metadata] of [odd, nest(32), nest(40), many, [1]].entries()) {
      await own.run({ runId: `m-${at}`, metadata } as never, (run) => run.step({ action: '\udc00' }));
    }
    expect(await own.close(LONG)).toBe(true);
    expect(own.stats().steps).toMatchObject({ sent: 5, dropped: 0 });
    expect(warned).toEqual([expect.stringContaining('nested more than 32 levels deep')]);
    expect(await service.readRun('m-4', 'success')).toMatchObject({ status_code: 200, steps: 1 });
  });
});

describe('an experiment', () => {
  it('assigns a unit the same arm each time, and to each arm its share', () => {
    const units = Array.from({ length: 4_000 }, (_, at) => `unit-${at}`);
    const arms = units.map((unit) => assignArm('e', unit));
    expect(units.map((unit) => assignArm('e', unit))).toEqual(arms);
    const on = (share?: number) => units.filter((unit) => assignArm('e', unit, share) === 'on').length;
    expect(Math.abs(on() - 2_000)).toBeLessThan(200);
    expect(Math.abs(on(0.1) - 400)).toBeLessThan(100);
    expect([on(0), on(1)]).toEqual([0, 4_000]);
    // A unit that is in `on` at a small share is also in `on` at a larger one.
    expect(
      units.every((unit) => assignArm('e', unit, 0.1) === 'off' || assignArm('e', unit, 0.5) === 'on'),
    ).toBe(true);
    expect(units.some((unit, at) => assignArm('f', unit) !== arms[at])).toBe(true);
  });

  it('is sent with the run, and does not affect runs without it', async () => {
    const options = { task: SITUATION, experimentId: 'exp', assignmentUnit: 'ann' };
    const [on, off] = (['on', 'off'] as const).map((arm) => understudy.start({ ...options, arm }));
    expect(understudy.start(options).arm).toBe(assignArm('exp', 'ann'));
    expect(await on!.patterns()).not.toBe('');
    expect(await off!.patterns()).toBe('');
    for (const run of [on!, off!]) {
      for (let at = 0; at < 6; at++) run.step({ action: 'run', actionInput: 'same', observation: 'failed' });
      run.finish();
    }
    expect(await understudy.flush(LONG)).toBe(true);
    expect(on!.intervention()).not.toBeNull();
    expect(off!.intervention()).toBeNull();
    const report = await understudy.api.reportExperiment({ params: { experiment_id: 'exp' } });
    expect(report.arms.on.finished).toBe(1);
    expect(report.arms.off.finished).toBe(1);
    expect(report.by_version.map(({ svc_version }) => svc_version)).toContain(packageFile.version);
  });
});

describe('findings', () => {
  it('are stored, recalled, listed, counted and deleted', async () => {
    const findings = understudy.findings('my-code-base', LONG);
    const filePath = 'src/parse/list.ts';
    const id = await findings.store('The parser drops trailing commas', {
      filePath,
      metadata: { by: 'ann' },
    });
    expect(id).toMatch(/^find_/);
    const [found] = await findings.recall('trailing commas in the parser');
    expect(found).toMatchObject({ findingId: id, filePath, findingType: 'note', metadata: { by: 'ann' } });
    expect(found!.score).toBeGreaterThan(0.25);
    expect(await findings.list()).toHaveLength(1);
    expect(await findings.list({ offset: 1 })).toEqual([]);
    expect(await findings.coverage(['list.ts', 'other.ts'])).toBe(0.5);
    expect([await findings.coverage([]), await findings.invalidate([])]).toEqual([1, 0]);
    expect(await findings.invalidate([filePath, 'other.ts'])).toBe(1);
    expect(await findings.store('Another thing')).not.toBeNull();
    expect(await findings.clear()).toBe(true);
    expect(await findings.list()).toEqual([]);
  });

  it('are cut as documented', async () => {
    const findings = understudy.findings('cut', LONG);
    await findings.store('🧵'.repeat(20_000), {
      filePath: 'p'.repeat(20_000),
      findingType: 't'.repeat(20_000),
    });
    const [finding] = await findings.list();
    expect([...finding!.content]).toHaveLength(8_000);
    expect([finding!.filePath.length, finding!.findingType.length]).toEqual([512, 64]);
    expect(await findings.recall('q'.repeat(9_000_000), { scoreThreshold: 0 })).toHaveLength(1);
  });

  it('are empty values if the service does not answer or refuses the request', async () => {
    const dead = new Understudy({ apiKey: 'k', baseUrl: 'http://127.0.0.1:1' });
    const wrong = new Understudy({ apiKey: 'wrong', baseUrl: service.url });
    for (const client of [dead, wrong]) {
      const findings = client.findings('c');
      expect(await findings.store('x')).toBeNull();
      expect(await findings.recall('x')).toEqual([]);
      expect(await findings.list()).toEqual([]);
      expect([await findings.coverage(['a']), await findings.invalidate(['a'])]).toEqual([0, 0]);
      expect(await findings.clear()).toBe(false);
    }
    expect(() => dead.findings('')).toThrow(TypeError);
  });
});

describe('options', () => {
  it.each([
    [{}, 'apiKey is required'],
    [{ apiKey: 'two words' }, 'apiKey contains characters that are not allowed in a key'],
    [{ apiKey: 'k', baseUrl: 'ftp://x' }, 'baseUrl must be'],
    [{ apiKey: 'k', tokenBudget: 0 }, 'tokenBudget'],
    [{ apiKey: 'k', fsmThresholds: { slow: 1 } }, 'fsmThresholds.slow'],
    [{ apiKey: 'k', modelRouting: { HARD: 'm' } }, 'modelRouting.HARD'],
    [{ apiKey: 'k', api_key: 'k' }, 'no option api_key'],
  ])('that are invalid are refused when the client is created: %j', (options, words) => {
    expect(() => new Understudy(options as never)).toThrow(words);
  });
});
