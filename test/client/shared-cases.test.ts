/**
 * The cases of both languages (`clients/cases`), checked with the TypeScript client. difficulty.test.ts checks the
 * cases of scores and of the state machine.
 */

import { describe, expect, it } from 'vitest';
import { textOfParts } from '../../src/client/observation.ts';
import { nameOutcome } from '../../src/client/outcome.ts';
import { boundStep } from '../../src/client/step.ts';
import {
  assignArm,
  type FindingsClient,
  type RunOptions,
  renderPatterns,
  Understudy,
  type UnderstudyOptions,
} from '../../src/client/understudy.ts';
import { AgentSteps, type ModelAnswer, type ToolResult } from '../../src/integrations/agent-steps.ts';
import { isModelCall, LabelledHosts } from '../../src/label/labelled-target.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { camelCased, readCases } from './client-cases.ts';
import { startService } from './scripted-service.ts';

type Parts = [text: string, times: number][];

const join = (parts: Parts) => parts.map(([text, times]) => text.repeat(times)).join('');

describe('texts match the cases', () => {
  interface PatternCase {
    name: string;
    patterns: { situation: string; dead_ends: string; unlock: string }[];
    max_tokens: number;
    text: string;
  }
  it.each(readCases<PatternCase[]>('pattern-texts'))(
    'of patterns: $name',
    ({ patterns, max_tokens, text }) => {
      const found = patterns.map(
        (fields) => ({ fields, tier: 'e2', pattern_id: 'p', similarity: 1 }) as const,
      );
      expect(renderPatterns(found, max_tokens)).toBe(text);
    },
  );

  it.each(readCases<{ name: string; parts: Parts; kept: Parts }[]>('step-texts'))(
    'of steps: $name',
    ({ parts, kept }) => {
      expect(boundStep(0, { observation: join(parts) }).body.observation === join(kept)).toBe(true);
    },
  );

  it('of values', () => {
    for (const { value, text } of readCases<{ value: unknown; text: string }[]>('step-values'))
      expect(boundStep(0, { observation: value }).body.observation).toBe(text);
  });

  it('of outcomes', () => {
    for (const { outcome, parts = [], sent } of readCases<{ outcome?: string; parts?: Parts; sent: Parts }[]>(
      'outcomes',
    ))
      expect(nameOutcome(outcome ?? join(parts))).toBe(join(sent));
  });
});

it('the arms of an experiment match the cases', () => {
  const cases =
    readCases<{ experiment_id: string; unit: string; share: number; arm: string }[]>('experiment-arms');
  for (const { experiment_id, unit, share, arm } of cases) {
    expect(assignArm(experiment_id, unit)).toBe(arm);
    expect(assignArm(experiment_id, unit, share + 1e-8)).toBe('on');
    expect(assignArm(experiment_id, unit, share - 1e-8)).toBe('off');
  }
});

it('the labelled hosts and paths match the cases', () => {
  const { hosts, paths } = readCases<{
    hosts: { host: string; svc_hosts?: string; labelled: boolean }[];
    paths: { path: string; labelled: boolean }[];
  }>('labels');
  for (const { host, svc_hosts = '', labelled } of hosts) {
    const listed = svc_hosts.split(/[\s,]+/).filter((name) => name !== '');
    expect(new LabelledHosts(listed).has(host), host).toBe(labelled);
  }
  for (const { path, labelled } of paths) expect(isModelCall(path), path).toBe(labelled);
});

describe('the events match the cases', () => {
  interface EventCase {
    name: string;
    options: Record<string, unknown>;
    run: Record<string, unknown>;
    steps: Record<string, unknown>[];
    outcome: string | null;
    requests: { path: string; body: unknown }[];
  }
  it.each(readCases<EventCase[]>('step-events'))(
    'of $name',
    async ({ options, run: of, steps, outcome, requests }) => {
      const service = await startService(200, {});
      const understudy = new Understudy({
        apiKey: 'k',
        baseUrl: service.url,
        ...(camelCased(options) as UnderstudyOptions),
      });
      const run = understudy.start(camelCased(of) as RunOptions);
      for (const step of steps) run.step(camelCased(step));
      run.finish(outcome ?? undefined);
      expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
      expect(service.asked.map(({ path, body }) => ({ path, body }))).toEqual(requests);
    },
  );
});

describe('the steps of integrations match the cases', () => {
  interface StepsCase {
    name: string;
    events: { answered?: ModelAnswer; returned?: Record<string, unknown> }[];
    steps: Record<string, unknown>[];
  }
  it.each(readCases<StepsCase[]>('agent-steps'))('of $name', async ({ events, steps: expected }) => {
    const service = await startService(200, {});
    const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url });
    const steps = AgentSteps.of(understudy.start({ runId: 'r' }));
    for (const { answered, returned } of events) {
      if (answered !== undefined) steps.answered(answered);
      else steps.returned(camelCased(returned!) as unknown as ToolResult);
    }
    expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
    const logged = service.asked.filter(({ path }) => path.endsWith('/steps')).map(({ body }) => body);
    expect(logged).toMatchObject(expected);
    expect(logged).toHaveLength(expected.length);
  });

  interface LateCase {
    name: string;
    /** In order: `log TEXT`, `begin` and `end` of a stream, and `finish` of the run. */
    events: string[];
    logged: string[];
    lost: number;
  }
  it.each(readCases<LateCase[]>('late-streams'))(
    'of late streams: $name',
    async ({ events, logged: expected, lost }) => {
      const service = await startService(200, {});
      const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url, onWarning: () => {} });
      const run = understudy.start({ runId: 'r' });
      const steps = AgentSteps.of(run);
      const ends: (() => void)[] = [];
      for (const event of events) {
        const [kind, text = ''] = event.split(' ');
        if (kind === 'log') steps.answered({ text, thinking: '', calls: [], tokens: 1 });
        else if (kind === 'begin') ends.push(steps.expectStream());
        else if (kind === 'end') ends.pop()!();
        else run.finish();
      }
      expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
      const logged = service.asked.filter(({ path }) => path.endsWith('/steps'));
      expect(logged.map(({ body }) => body!.action_input)).toEqual(expected);
      expect(understudy.stats().steps.dropped).toBe(lost);
      expect(service.asked.at(-1)!.path).toBe('/v1/monitor/runs/r/finish');
    },
  );

  it('of parts', () => {
    for (const { content, text } of readCases<{ content: unknown; text: string }[]>('part-texts'))
      expect(textOfParts(content)).toBe(text);
  });
});

describe('run starts', () => {
  /** @returns the body of the start, which must be the only one that is sent */
  async function start(options: Record<string, unknown>): Promise<Record<string, unknown>> {
    const service = await startService(200, {});
    const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url, onWarning: () => {} });
    understudy.start(camelCased(options) as RunOptions);
    expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
    return service.asked[0]!.body!;
  }

  it.each(readCases<{ field: string; parts: Parts; kept: Parts }[]>('run-texts'))(
    'contain as much of $field as the service accepts: $kept',
    async ({ field, parts, kept }) => {
      const experiment = { experiment_id: 'e', arm: 'on' };
      const body = await start({ ...experiment, [field]: join(parts) });
      expect(body[field] === join(kept)).toBe(true);
    },
  );

  interface MetadataCase {
    name: string;
    metadata?: unknown;
    filled?: [text: string, times: number];
    nested?: number;
    kept?: unknown;
    kept_whole?: boolean;
  }
  it.each(readCases<MetadataCase[]>('run-metadata'))(
    'contain metadata that $name',
    async ({ metadata, filled, nested, kept, kept_whole = false }) => {
      const nest = (levels: number): object => (levels === 1 ? {} : { deep: nest(levels - 1) });
      const text = filled && { text: filled[0].repeat(filled[1]) };
      const given = metadata ?? text ?? nest(nested!);
      const body = await start({ metadata: given });
      expect(body.metadata ?? null).toEqual(kept_whole ? given : kept);
    },
  );
});

describe('the marks match the cases', () => {
  interface MarkCase {
    name: string;
    said: Record<string, unknown>;
    note_parts?: Parts;
    body: Record<string, unknown> | null;
    kept_note?: Parts;
    left_out?: boolean;
  }
  it.each(readCases<MarkCase[]>('run-marks'))(
    'of $name',
    async ({ said, note_parts, body, kept_note, left_out }) => {
      const service = await startService(200, {});
      const warned: string[] = [];
      const understudy = new Understudy({
        apiKey: 'k',
        baseUrl: service.url,
        onWarning: ({ cause }) => warned.push(cause),
      });
      const run = understudy.start({ runId: 'r' });
      const note = note_parts && { note: join(note_parts) };
      run.mark({ ...camelCased(said), ...note });
      expect(await understudy.close({ timeoutMs: PATIENCE_MS })).toBe(true);
      const sent = service.asked.filter(({ path }) => path === '/v1/runs/r/marks');
      const kept = kept_note && { note: join(kept_note) };
      expect(sent.map((request) => request.body)).toEqual(body === null ? [] : [{ ...body, ...kept }]);
      expect(warned).toEqual(left_out === true ? ['unfit_mark'] : []);
      const counts = body === null ? { sent: 0, dropped: 1 } : { sent: 1, dropped: 0 };
      expect(understudy.stats().marks).toEqual({ said: 1, ...counts });
    },
  );
});

describe('patterns', () => {
  interface RetrievalCase {
    name: string;
    options: Record<string, unknown>;
    run: Record<string, unknown>;
    parts?: Parts;
    wanted: Record<string, unknown>;
    kept?: Parts;
    body: Record<string, unknown> | null;
    text: string;
  }
  const fields = { situation: 's', dead_ends: '', unlock: 'u' };
  const answer = { traces: [{ tier: 'e2', pattern_id: 'p', similarity: 1, fields }] };

  it.each(readCases<RetrievalCase[]>('retrievals'))('are retrieved $name', async (testCase) => {
    const service = await startService(200, answer);
    const understudy = new Understudy({
      apiKey: 'k',
      baseUrl: service.url,
      timeoutMs: PATIENCE_MS,
      liveStreamingEnabled: false,
      ...(camelCased(testCase.options) as UnderstudyOptions),
    });
    const run = understudy.start(camelCased(testCase.run) as RunOptions);
    const context = testCase.parts && { context: join(testCase.parts) };
    const text = await run.patterns({ ...camelCased(testCase.wanted), ...context });
    expect(text.slice(0, 5)).toBe(testCase.text);
    const kept = testCase.kept && { context: join(testCase.kept) };
    const expected = testCase.body === null ? [] : [{ ...testCase.body, ...kept }];
    expect(service.asked.map(({ body }) => body)).toEqual(expected);
  });
});

describe('findings', () => {
  interface FindingCase {
    call: 'store' | 'recall' | 'list' | 'coverage' | 'invalidate' | 'clear';
    content?: string;
    finding?: Record<string, unknown>;
    parts?: Parts;
    paths?: string[];
    options?: Record<string, unknown>;
    method?: string;
    path?: string;
    body?: Record<string, unknown> | null;
    body_parts?: Record<string, Parts>;
    answer?: unknown;
    result: unknown;
    failed: unknown;
  }
  const cases = readCases<FindingCase[]>('findings');
  /** Arguments that this client does not send if they equal the defaults of the service. */
  const DEFAULTS = { file_path: '', finding_type: 'note' };

  function call(
    findings: FindingsClient,
    { call, content, finding, parts, paths, options }: FindingCase,
  ): Promise<unknown> {
    const first = parts === undefined ? (content ?? paths ?? (finding && camelCased(finding))) : join(parts);
    const given = [
      ...(first === undefined ? [] : [first]),
      ...(options === undefined ? [] : [camelCased(options)]),
    ];
    return (findings[call] as (...given: unknown[]) => Promise<unknown>).apply(findings, given);
  }

  interface Refusal {
    call: 'store' | 'recall' | 'coverage' | 'invalidate';
    argument: unknown;
    options?: Record<string, unknown>;
    field: string;
    needs: string;
  }
  it('refuse an argument of a wrong type with its name, before the request', async () => {
    const service = await startService(200, {});
    const findings = new Understudy({ apiKey: 'k', baseUrl: service.url }).findings('base');
    for (const { call, argument, options = {}, field, needs } of readCases<Refusal[]>('finding-refusals')) {
      const [name] = Object.keys(camelCased({ [field]: null }));
      const asked = (findings[call] as (...given: unknown[]) => Promise<unknown>).apply(findings, [
        argument,
        camelCased(options),
      ]);
      await expect(asked, `${call} ${JSON.stringify(argument)}`).rejects.toThrow(
        new RegExp(`^${name} of a finding must be ${needs}, not `),
      );
      await expect(asked).rejects.toBeInstanceOf(TypeError);
    }
    expect(service.asked).toEqual([]);
  });

  it.each(cases)('are requested by $call', async (testCase) => {
    const service = await startService(200, testCase.answer);
    const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url });
    expect(await call(understudy.findings('my code/base'), testCase)).toEqual(testCase.result);
    if (testCase.method === undefined) return expect(service.asked).toEqual([]);
    const more = Object.entries(testCase.body_parts ?? {}).map(([name, parts]) => [name, join(parts)]);
    const body = testCase.body === null ? null : { ...testCase.body, ...Object.fromEntries(more) };
    const defaults = testCase.call === 'store' ? DEFAULTS : {};
    const asked = service.asked.map(({ body, ...rest }) => ({
      ...rest,
      body: body && { ...defaults, ...body },
    }));
    expect(asked).toEqual([{ method: testCase.method, path: testCase.path, body }]);
  });

  it.each(cases)('are empty if $call is refused', async (testCase) => {
    const service = await startService(401, { detail: 'no' });
    const understudy = new Understudy({ apiKey: 'k', baseUrl: service.url });
    expect(await call(understudy.findings('my code/base'), testCase)).toEqual(testCase.failed);
  });
});
