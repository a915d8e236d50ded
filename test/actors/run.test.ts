/** The run's decisions, without threads: what it answers, records and sends, for any messages, even repeated ones. */

import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import type { LiveMessage } from '../../actors/live-hub/protocol.ts';
import { StepAnswersAdapter } from '../../actors/run/adapter.ts';
import { RUN_DELETE_STEPS, run } from '../../actors/run/behaviour.ts';
import { type EvaluateReply, runAddress } from '../../actors/run/protocol.ts';
import { packStep, projectOf, stepIndexOf, unpackStep } from '../../actors/run/step-message.ts';
import { makeAuditEntry } from '../../src/domain/audit-rows.ts';
import { GATHERED_STEPS, readSteps } from '../../src/domain/gathered-steps.ts';
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';
import { MONITOR_NAMES, type MonitorScores } from '../../src/domain/monitors/names.ts';
import { makeProfile } from '../../src/domain/monitors/profiles.ts';
import {
  packScores,
  type RunStart,
  type RunState,
  readAnswer,
  renderScores,
  UNKNOWN_RUN,
} from '../../src/domain/run.ts';
import type { RunStepRow } from '../../src/domain/run-rows.ts';
import type { RunSummary } from '../../src/domain/run-summary.ts';
import { ActorKit, type KitAnswer } from '../../src/runtime/kit.ts';
import { isValidKey } from '../../src/runtime/protocol.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { TableRunReads } from '../../src/storage/table-run-reads.ts';

const NOW_MS = Date.UTC(2026, 0, 31, 23, 59, 59, 500);
/** The encoding of the journal and of the tables. */
const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });
const pack = (value: unknown): Uint8Array => packr.pack(value);
const unpack = (bytes: Uint8Array): unknown => packr.unpack(bytes);
const LOOP_STEPS = 8;

function makeStart(changes: Partial<RunStart['facts']> = {}, rest: Partial<RunStart> = {}): RunStart {
  return {
    facts: {
      org_id: 'org_a',
      project_id: 'proj_a',
      run_id: 'run-1',
      agent_name: 'fixer',
      model: 'm-1',
      framework: 'custom',
      task_profile: 'coding',
      codebase_id: '',
      experiment_id: '',
      arm: '',
      assignment_unit: '',
      svc_version: '',
      ...changes,
    },
    task: 'make the tests pass',
    metadata: '',
    fingerprint: 'f1',
    profile: null,
    ...rest,
  };
}

function makeStep(step_index: number, changes: Partial<MonitorStep> = {}): MonitorStep {
  return {
    step_index,
    action: 'read_file',
    action_input: `{"path":"src/file-${step_index}.ts"}`,
    thought: `look at file ${step_index}`,
    observation: `export const value${step_index} = ${step_index * 17};`,
    is_error: false,
    tokens: 10,
    ...changes,
  };
}

/** A step of a loop: every step has the same call and the same result. */
function makeRepeat(step_index: number): MonitorStep {
  return makeStep(step_index, {
    action: 'search',
    action_input: '{"query":"needle"}',
    thought: 'search again',
    observation: 'no results',
  });
}

/** A run with its tables. It writes rows and answers look-ups one after the other, as the actor host does. */
class RunUnderTest {
  readonly kit = new ActorKit(run, { now_ms: NOW_MS });
  readonly tables = new MemoryTables();
  /** The events that the run sent to the live stream. */
  readonly told: { event: string; [field: string]: unknown }[] = [];

  async start(start = makeStart()): Promise<KitAnswer> {
    const answer = this.kit.ask('start', start);
    await this.settle();
    return answer;
  }

  async step(step: MonitorStep, projectId: string | null = null): Promise<KitAnswer> {
    const answer = this.kit.ask('step', packStep(projectId, step));
    await this.settle();
    return answer.type === 'held' ? this.kit.answerTo(answer.token) : answer;
  }

  /** Sends a step without waiting for look-ups. @returns reads the answer */
  send(step: MonitorStep): () => KitAnswer {
    const answer = this.kit.ask('step', packStep(null, step));
    return () => (answer.type === 'held' ? this.kit.answerTo(answer.token) : answer);
  }

  async finish(outcome: string, projectId: string | null = null): Promise<KitAnswer> {
    const answer = this.kit.ask('finish', { project_id: projectId, outcome });
    await this.settle();
    return answer;
  }

  async evaluate(): Promise<EvaluateReply> {
    const answer = this.kit.ask('evaluate', { project_id: null });
    await this.settle();
    if (answer.type !== 'reply') throw new Error(`answered with ${answer.type}`);
    return answer.value as EvaluateReply;
  }

  /** Stores recorded rows and performs the effects that wait for them, until nothing is left. */
  async settle(): Promise<void> {
    for (let effects = this.kit.takeEffects(); effects.length > 0; effects = this.kit.takeEffects()) {
      for (const effect of effects) {
        if (effect.type === 'persist') {
          await this.tables.transact((transaction) => {
            for (const row of effect.rows) transaction.write(row);
          });
        } else if (effect.type === 'tell') {
          this.told.push({ ...(effect.payload as LiveMessage).event });
        }
      }
      for (const effect of effects)
        if (effect.type === 'io') this.kit.finish(effect, await this.#lookUp(effect.operation, effect.input));
    }
  }

  /** Sends steps that have keys instead of indices. @returns reads the answer, which exists after the look-up */
  sendKeyed(keys: string[], projectId: string | null = null, model = ''): () => KitAnswer {
    const { step_index: _, ...step } = makeStep(0);
    const steps = keys.map((key) => ({ key, told_by: 'span' as const, call: '', step }));
    const answer = this.kit.ask('keyed_steps', { project_id: projectId, steps, model });
    return () => (answer.type === 'held' ? this.kit.answerTo(answer.token) : answer);
  }

  #lookUp(operation: string, input: unknown): Promise<unknown> {
    const adapter = new StepAnswersAdapter(new TableRunReads(this.tables));
    return adapter[operation as 'read' | 'findKnown' | 'gather'](input as never);
  }

  get state(): RunState {
    return this.kit.state as RunState;
  }
}

function replyOf(answer: KitAnswer): string {
  if (answer.type !== 'reply') throw new Error(`answered with ${JSON.stringify(answer)}`);
  return answer.value as string;
}

function codeOf(answer: KitAnswer): string {
  return answer.type === 'refuse' ? answer.error.code : answer.type;
}

it('a packed step has no secret and reads the same on its own thread and on another one', () => {
  const secret = `a key: ${'sk-ant-api03-'}${'k'.repeat(95)}`;
  for (const step of [makeStep(3), makeStep(4, { observation: secret, is_error: true, tokens: 0 })]) {
    const here = packStep('proj_a', step);
    const packr = new Packr({ useRecords: false, variableMapSize: true });
    const there = packr.unpack(packr.pack(here));
    expect([projectOf(there), stepIndexOf(there)]).toEqual(['proj_a', step.step_index]);
    const readThere = unpackStep(there, NOW_MS);
    readThere.event.digest.features = Uint8Array.from(readThere.event.digest.features);
    expect(readThere).toEqual(unpackStep(here, NOW_MS));
    expect(JSON.stringify(here)).not.toContain('k'.repeat(95));
  }
});

describe('the stored state of a finished run', () => {
  const { encode, decode, version } = run.persistence!.snapshot!;
  const finished: RunState = {
    ...UNKNOWN_RUN,
    facts: makeStart().facts,
    fingerprint: 'f1',
    started_at_ms: NOW_MS,
    steps: 3,
    tokens: 900,
    last_index: 4,
    max_total_score: 0.125,
    fired_counts: MONITOR_NAMES.map((_name, at) => at),
    last: {
      scores: Object.fromEntries(MONITOR_NAMES.map((name, at) => [name, at / 8])) as unknown as MonitorScores,
      total_score: 0.25,
      fired: [MONITOR_NAMES[1]!],
      intervention: null,
    },
    told_at: 2,
    finish: { at_ms: NOW_MS + 5, outcome: 'success' },
  };

  it.each([
    ['without a key', finished],
    ['with a key', { ...finished, facts: { ...makeStart({ key_id: 'key_1' }).facts } }],
    ['that is being deleted', { ...finished, left_to_delete: 2_000 }],
  ])('%s is unchanged, in less than half the bytes', (_what, state) => {
    const stored = pack(encode(state));
    expect(decode(unpack(stored), version)).toEqual(state);
    expect(stored.length).toBeLessThan(pack(state).length / 2);
  });

  it('of an earlier version can be read', () => {
    expect(decode(unpack(pack(finished)), 3)).toEqual(finished);
  });

  it('of a running run has the names of its fields', () => {
    const running = { ...finished, finish: null };
    expect(decode(unpack(pack(encode(running))), version)).toEqual(running);
  });
});

describe('the start of a run', () => {
  it('returns the time of the first start, however often it is repeated, also after the finish', async () => {
    const subject = new RunUnderTest();
    const first = replyOf(await subject.start());
    expect(JSON.parse(first)).toEqual({
      run_id: 'run-1',
      status: 'running',
      started_at: '2026-01-31T23:59:59.500Z',
    });
    subject.kit.advance(5_000);
    expect(replyOf(await subject.start())).toBe(first);
    await subject.finish('success');
    subject.kit.restart();
    expect(replyOf(await subject.start())).toBe(first);
    expect(subject.kit.eventCount).toBe(2);
  });

  it('refuses another start under its id, live or finished', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const other = makeStart({}, { fingerprint: 'f2' });
    expect(codeOf(await subject.start(other))).toBe('run_conflict');
    await subject.finish('success');
    expect(codeOf(await subject.start(other))).toBe('run_conflict');
  });

  it('writes the rows of lists and experiments, and counts once', async () => {
    const subject = new RunUnderTest();
    await subject.start(
      makeStart({ experiment_id: 'exp', arm: 'on', assignment_unit: 'u1', svc_version: 'v2' }),
    );
    await subject.start(
      makeStart({ experiment_id: 'exp', arm: 'on', assignment_unit: 'u1', svc_version: 'v2' }),
    );
    expect(subject.tables.get('usage', ['org_a', '2026-01-31', 'proj_a'])).toEqual({ runs: 1 });
    expect(subject.tables.get('runs', ['org_a', 'proj_a', 'run-1'])).toMatchObject({
      status: 'running',
      agent_name: 'fixer',
      finished_at: null,
    });
    expect(subject.tables.get('runs_by_experiment', ['org_a', 'exp', 'proj_a', 'run-1'])).toEqual({
      run_id: 'run-1',
      org_id: 'org_a',
      project_id: 'proj_a',
      experiment_id: 'exp',
      arm: 'on',
      assignment_unit: 'u1',
      svc_version: 'v2',
      status: 'running',
      outcome: '',
      steps: 0,
      tokens: 0,
      duration_ms: 0,
      started_at: '2026-01-31T23:59:59.500Z',
      finished_at: null,
    });
    expect(subject.told.map(({ event }) => event)).toEqual(['run_start']);
  });

  it('stores no secret of its task and its metadata', async () => {
    const subject = new RunUnderTest();
    const key = `sk-ant-api03-${'Ab1'.repeat(31)}`;
    await subject.start(
      makeStart(
        {},
        {
          task: `use ${key} to log in`,
          metadata: JSON.stringify({
            a: key,
            env: [{ password: 'hunter2', dbPassword: 'pw', max_tokens: 9 }],
          }),
        },
      ),
    );
    await subject.step(
      makeStep(0, { action_input: `{"key":"${key}"}`, observation: `${'x'.repeat(560)} ${key}` }),
    );
    const rows = ['run_starts', 'run_steps', 'runs'].flatMap((table) => [
      ...subject.tables.range(table, { prefix: [] }),
    ]);
    expect(rows).toHaveLength(3);
    expect(JSON.stringify(rows)).not.toMatch(/Ab1Ab1|hunter2|"pw/);
    expect(subject.tables.get('run_starts', ['org_a', 'run-1'])).toMatchObject({
      metadata:
        '{"a":"[redacted]","env":[{"password":"[redacted]","dbPassword":"[redacted]","max_tokens":9}]}',
    });
    expect(JSON.stringify(rows)).toContain('[redacted]');
  });
});

describe('a step', () => {
  it('is scored by all six monitors, and stored with its answer', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const answer = replyOf(await subject.step(makeStep(0)));
    const { scores, total_score, fired } = JSON.parse(answer);
    expect(Object.keys(scores)).toEqual([...MONITOR_NAMES]);
    expect(total_score).toBeGreaterThanOrEqual(0);
    expect(fired).toEqual([]);
    const { answer: stored, ...row } = subject.tables.get<RunStepRow>('run_steps', ['org_a', 'run-1', 0])!;
    expect(readAnswer(stored)).toBe(answer);
    expect(row).toEqual({
      at: '2026-01-31T23:59:59.500Z',
      is_error: false,
      tokens: 10,
      copy: {
        action: 'read_file',
        action_input: '{"path":"src/file-0.ts"}',
        thought: 'look at file 0',
        observation: 'export const value0 = 0;',
      },
    });
    expect(subject.tables.get('usage', ['org_a', '2026-01-31', 'proj_a'])).toEqual({
      runs: 1,
      steps: 1,
      tokens: 10,
    });
  });

  it('gets its first answer again, whatever its new content, and changes nothing', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const answers: string[] = [];
    for (let index = 0; index < LOOP_STEPS; index++)
      answers.push(replyOf(await subject.step(makeRepeat(index))));
    const before = subject.state;
    const events = subject.kit.eventCount;
    for (let index = 0; index < LOOP_STEPS; index++) {
      expect(replyOf(await subject.step(makeStep(index, { tokens: 999, is_error: true })))).toBe(
        answers[index],
      );
    }
    expect(subject.state).toBe(before);
    expect(subject.kit.eventCount).toBe(events);
    await subject.finish('failure: gave up');
    subject.kit.restart();
    for (let index = 0; index < LOOP_STEPS; index++) {
      expect(replyOf(await subject.step(makeRepeat(index)))).toBe(answers[index]);
    }
  });

  it('is recognized if it is repeated before its first answer is stored', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const answers = [
      subject.send(makeStep(7)),
      subject.send(makeStep(7)),
      subject.send(makeStep(7, { tokens: 1 })),
    ];
    await subject.settle();
    expect(new Set(answers.map((answer) => replyOf(answer()))).size).toBe(1);
    expect(subject.state).toMatchObject({ steps: 1, tokens: 10 });
  });

  it('is stored once if it arrives late and twice at the same time', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(9));
    const answers = [3, 3, 4, 3].map((index) => subject.send(makeStep(index)));
    await subject.settle();
    const [first, second, other, third] = answers.map((answer) => replyOf(answer()));
    expect([second, third]).toEqual([first, first]);
    expect(other).toBeDefined();
    expect(subject.state).toMatchObject({ steps: 3, tokens: 30, last_index: 9, late_steps: 2 });
  });

  it('is stored once under a key, also twice at the same time, and gets the next index', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(4));
    const readValue = (answer: () => KitAnswer): unknown => (answer() as { value?: unknown }).value;
    const answers = [['a', 'b', 'a'], ['b', 'c'], ['a']].map((keys) => subject.sendKeyed(keys));
    await subject.settle();
    expect(answers.map(readValue)).toEqual([
      { recorded: 2, refused: 0 },
      { recorded: 1, refused: 0 },
      { recorded: 0, refused: 0 },
    ]);
    expect(subject.state).toMatchObject({ steps: 4, last_index: 7 });
    const kept = [...subject.tables.range<RunStepRow>('run_steps', { prefix: ['org_a', 'run-1'] })];
    expect(kept.map(({ row }) => row[2])).toEqual([4, 5, 6, 7]);
    subject.kit.restart();
    await subject.finish('success');
    const late = subject.sendKeyed(['b', 'd', 'd']);
    await subject.settle();
    expect(readValue(late)).toEqual({ recorded: 0, refused: 1 });
    expect(codeOf(subject.sendKeyed(['a'], 'proj_b')())).toBe('run_not_found');
    expect(subject.state).toMatchObject({ steps: 4 });
  });

  it('names the model of a run that was started without one, once', async () => {
    const subject = new RunUnderTest();
    await subject.start(makeStart({ model: '' }));
    for (const model of ['', 'first', 'second']) {
      subject.sendKeyed([], null, model);
      await subject.settle();
    }
    subject.kit.restart();
    expect(subject.state.facts).toMatchObject({ model: 'first' });
    expect(subject.tables.get('runs', ['org_a', 'proj_a', 'run-1'])).toMatchObject({ model: 'first' });
  });

  it('is refused by a run that was not started, is finished, or belongs to another project', async () => {
    const subject = new RunUnderTest();
    expect(codeOf(await subject.step(makeStep(0)))).toBe('run_not_found');
    await subject.start();
    expect(codeOf(await subject.step(makeStep(0), 'proj_b'))).toBe('run_not_found');
    await subject.step(makeStep(5), 'proj_a');
    await subject.finish('success');
    expect(codeOf(await subject.step(makeStep(6)))).toBe('run_finished');
    expect(codeOf(await subject.step(makeStep(2)))).toBe('run_finished');
    expect(codeOf(await subject.step(makeStep(5), 'proj_b'))).toBe('run_not_found');
  });

  it('is refused while storage cannot be read', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(1));
    const answer = subject.send(makeStep(1));
    const [lookUp] = subject.kit.takeEffectsOf('io');
    subject.kit.fail(lookUp!, { code: 'io_failed', message: 'no', retryable: true });
    expect(answer()).toMatchObject({ type: 'refuse', error: { code: 'io_failed' } });
    expect(subject.state.steps).toBe(1);
  });

  it('sends its scores to the stream, and an intervention only a few times in a streak', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    for (let index = 0; index < LOOP_STEPS; index++) await subject.step(makeRepeat(index));
    const steps = subject.told.filter(({ event }) => event === 'step');
    const interventions = subject.told.filter(({ event }) => event === 'intervention');
    expect(steps).toHaveLength(LOOP_STEPS);
    expect(steps.at(-1)).toMatchObject({ org_id: 'org_a', step_index: LOOP_STEPS - 1, action: 'search' });
    expect(JSON.stringify(steps)).not.toContain('needle');
    expect(interventions.length).toBeGreaterThanOrEqual(1);
    expect(interventions.length).toBeLessThanOrEqual(3);
  });
});

describe('the finish of a run', () => {
  it('sums what was logged, and gives a repeated request the same answer', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    for (let index = 0; index < LOOP_STEPS; index++) await subject.step(makeRepeat(index));
    subject.kit.advance(90_000);
    const first = replyOf(await subject.finish('failure: TimeoutError'));
    const totals = JSON.parse(first);
    expect(totals).toMatchObject({
      run_id: 'run-1',
      status: 'finished',
      outcome: 'failure: TimeoutError',
      steps: LOOP_STEPS,
      tokens: 10 * LOOP_STEPS,
      duration_ms: 90_000,
    });
    expect(Object.keys(totals.fired)).toEqual([...MONITOR_NAMES]);
    expect(totals.fired.infinite_loop + totals.fired.semantic_loop).toBeGreaterThan(0);
    expect(totals.max_total_score).toBeGreaterThan(0);
    subject.kit.advance(60_000);
    subject.kit.restart();
    expect(replyOf(await subject.finish('failure: TimeoutError'))).toBe(first);
    expect(codeOf(await subject.finish('success'))).toBe('outcome_conflict');
    expect(codeOf(await subject.finish('failure: TimeoutError', 'proj_b'))).toBe('run_not_found');
    expect(subject.told.filter(({ event }) => event === 'run_finish')).toHaveLength(1);
    expect(subject.tables.get('runs', ['org_a', 'proj_a', 'run-1'])).toMatchObject({
      status: 'finished',
      outcome: 'failure: TimeoutError',
      finished_at: '2026-02-01T00:01:29.500Z',
      fired: totals.fired,
    });
  });

  it('has a duration of at least 0 when the clock was set back', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    subject.kit.setWallClock(NOW_MS - 3_600_000);
    expect(JSON.parse(replyOf(await subject.finish('success'))).duration_ms).toBe(0);
  });

  it('counts each event for the day on which it happens', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(0));
    subject.kit.advance(1_000);
    await subject.step(makeStep(1));
    expect(subject.tables.get('usage', ['org_a', '2026-01-31', 'proj_a'])).toEqual({
      runs: 1,
      steps: 1,
      tokens: 10,
    });
    expect(subject.tables.get('usage', ['org_a', '2026-02-01', 'proj_a'])).toEqual({ steps: 1, tokens: 10 });
  });
});

describe('the evaluation of a run', () => {
  it('returns an intervention only after the step that caused it, and the same until the next step', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const injected: number[] = [];
    for (let index = 0; index < 12; index++) {
      await subject.step(makeRepeat(index));
      const first = await subject.evaluate();
      expect(await subject.evaluate()).toEqual(first);
      if (first.inject) injected.push(index);
    }
    const interventions = subject.told.filter(({ event }) => event === 'intervention');
    expect(injected).toEqual(interventions.map(({ step_index }) => step_index));
    subject.kit.restart();
    expect((await subject.evaluate()).inject).toBe(injected.at(-1) === 11);
  });

  it('returns an intervention that was made between two evaluations', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    for (let index = 0; index < LOOP_STEPS; index++) await subject.step(makeRepeat(index));
    const { json, inject } = await subject.evaluate();
    const { intervention_text, failure_type, fired, composite } = JSON.parse(json);
    expect(inject).toBe(true);
    expect(intervention_text.length).toBeGreaterThan(40);
    expect(intervention_text.length).toBeLessThanOrEqual(1_200);
    expect(fired).toContain(failure_type);
    expect(composite).toBeGreaterThan(0);
  });

  it('returns nothing before the first step', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    expect(JSON.parse((await subject.evaluate()).json)).toMatchObject({
      inject: false,
      intervention_text: '',
      failure_type: '',
      level: '',
      fired: [],
      composite: 0,
    });
  });

  it('uses the profile with which the run was started', async () => {
    const subject = new RunUnderTest();
    const never = { ...makeProfile('deaf', { semantic_loop: 1 }) };
    for (const monitor of MONITOR_NAMES) never.weights[monitor] = monitor === 'cyclic_compression' ? 1 : 0;
    await subject.start(makeStart({ task_profile: 'deaf' }, { profile: never }));
    for (let index = 0; index < LOOP_STEPS; index++) {
      const { scores, total_score } = JSON.parse(replyOf(await subject.step(makeRepeat(index))));
      expect(total_score).toBeCloseTo(scores.cyclic_compression, 10);
    }
  });
});

describe('any repetition and order of messages', () => {
  it('leads to the same state, and to one answer for each step', async () => {
    const order = fc.uniqueArray(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(order, fc.array(fc.nat(), { maxLength: 40 }), async (indices, retries) => {
        const once = new RunUnderTest();
        await once.start();
        const answers = new Map<number, string>();
        for (const index of indices) answers.set(index, replyOf(await once.step(stepOf(index))));

        const often = new RunUnderTest();
        await often.start();
        const pending: [index: number, answer: () => KitAnswer][] = [];
        for (const [at, index] of indices.entries()) {
          // A late step waits for a look-up. In this test, the next step must not overtake it.
          await often.settle();
          pending.push([index, often.send(stepOf(index))]);
          for (const retry of retries.filter((_, i) => i % indices.length === at)) {
            const again = indices[retry % (at + 1)]!;
            pending.push([again, often.send(makeStep(again, { tokens: 5_000 }))]);
            if (retry % 3 === 0) {
              await often.settle();
              often.kit.restart();
              // A restart loses pending answers, but all requests so far have been answered.
            }
          }
        }
        await often.settle();
        expect(often.state).toEqual(once.state);
        expect(often.kit.eventCount).toBe(once.kit.eventCount);
        for (const [index, answer] of pending) {
          const given = answer();
          if (given.type !== 'none') expect(replyOf(given)).toBe(answers.get(index));
        }
      }),
      { numRuns: 60 },
    );
  });
});

it('a finished run stores less than twice the size of its steps', async () => {
  const { persistence } = run;
  const subject = new RunUnderTest();
  await subject.start();
  const words = 'the retry of the client is in src/payments/client.ts and repeats each request at once ';
  let sent = 0;
  let stored = 0;
  for (let index = 0; index < 7; index++) {
    const step = { ...makeStep(index), thought: words, observation: words.repeat(2) };
    sent += JSON.stringify(step).length;
    const before = subject.state;
    await subject.step(step);
    const { copy, answer, ...row } = subject.tables.get<RunStepRow>('run_steps', ['org_a', 'run-1', index])!;
    expect(readAnswer(answer)).toBe(renderScores(subject.state.last));
    stored += pack({ copy, answer, ...row }).length;
    expect(subject.state.steps).toBe(before.steps + 1);
  }
  await subject.finish('success');
  expect(persistence!.snapshot.isDue!(subject.state)).toBe(true);
  stored += pack(persistence!.snapshot.encode(subject.state)).length;
  expect(stored).toBeLessThan(2 * sent);
});

it('a step is stored without the zeros of its features, and former versions can be read', async () => {
  const { persistence } = run;
  const subject = new RunUnderTest();
  await subject.start();
  const { event } = unpackStep(packStep(null, makeStep(0)), NOW_MS);
  const stored = persistence!.encodeEvent!(event);
  expect(pack(stored).length).toBeLessThan(pack(event).length * 0.65);
  const read = (packed: Uint8Array) => persistence!.decodeEvent!(unpack(packed));
  expect(read(pack(stored))).toEqual(event);
  expect(read(pack(event))).toEqual({
    ...event,
    digest: { ...event.digest, features: Buffer.from(event.digest.features) },
  });
  await subject.step(makeStep(0));
  const { encode, decode } = persistence!.snapshot;
  expect(decode(unpack(pack(encode(subject.state))), 3)).toEqual(subject.state);
  expect(decode(unpack(pack(subject.state)), 2)).toEqual(subject.state);
  expect(pack(encode(subject.state)).length).toBeLessThan(pack(subject.state).length / 2);
});

it('the text of a stored answer is rebuilt byte for byte from its numbers', () => {
  const scores = Object.fromEntries(MONITOR_NAMES.map((name, at) => [name, at / 7])) as MonitorScores;
  const fired = [MONITOR_NAMES[2]!, MONITOR_NAMES[1]!];
  const outcome = { scores, total_score: 0.123456, fired, intervention: null };
  expect(readAnswer(packScores(outcome))).toBe(renderScores(outcome));
  expect(readAnswer('{"as":"it was"}')).toBe('{"as":"it was"}');
});

it('the state of a run is at most a tenth larger after 5,000 steps than after 500', async () => {
  const subject = new RunUnderTest();
  await subject.start();
  const sizes: number[] = [];
  for (let index = 0; index < 5_000; index++) {
    subject.kit.ask('step', packStep(null, index % 7 < 3 ? makeRepeat(index) : makeStep(index)));
    subject.kit.takeEffects();
    if (index === 499 || index === 4_999)
      sizes.push(JSON.stringify(run.persistence!.snapshot.encode(subject.state)).length);
  }
  expect(sizes[1]! / sizes[0]!).toBeLessThan(1.1);
});

describe('a finished run', () => {
  const STEPS = 2 * GATHERED_STEPS + 9;

  it('stores many steps in one row, and repeats the answer to each until it is deleted, also after a crash', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const answers: string[] = [];
    for (let index = 0; index < STEPS; index++) answers.push(replyOf(await subject.step(stepOf(2 * index))));
    const read = () =>
      readSteps(subject.tables, { org_id: 'org_a', run_id: 'run-1' }, { after: null, limit: 999 });
    const before = read();
    expect(before).toHaveLength(STEPS);
    await subject.finish('success');
    const rows = [...subject.tables.range('run_gathered_steps', { prefix: [] })];
    expect([...subject.tables.range('run_steps', { prefix: [] })]).toEqual([]);
    expect(rows.map(({ row }) => row[2])).toEqual([127, 255, STEPS - 1].map((at) => 2 * at));
    expect(read()).toEqual(before);
    subject.kit.restart();
    for (const at of [0, 1, 127, 128, 200, STEPS - 1])
      expect(replyOf(await subject.step(stepOf(2 * at)))).toBe(answers[at]);
    for (const index of [1, 255, 2 * STEPS])
      expect(codeOf(await subject.step(stepOf(index)))).toBe('run_finished');
    expect(subject.state.steps).toBe(STEPS);
    subject.kit.ask('delete', { project_id: null, audit: null });
    await subject.settle();
    expect([...subject.tables.range('run_gathered_steps', { prefix: [] })]).toEqual([]);
  });

  it('stores no gathered rows if the run is deleted meanwhile, even if it is started again', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(0));
    subject.kit.ask('finish', { project_id: null, outcome: 'success' });
    const [asked] = subject.kit.takeEffectsOf('io');
    const found = { first: 0, last: 0, value: Buffer.of(1), is_end: true };
    subject.kit.ask('delete', { project_id: null, audit: null });
    subject.kit.finish(asked!, found);
    await subject.start(makeStart({}, { fingerprint: 'f2' }));
    subject.kit.advance(1);
    subject.kit.finish(asked!, found);
    subject.kit.finish(asked!, null);
    expect(subject.kit.takeEffectsOf('persist')).toEqual([]);
  });
});

describe('a deleted run', () => {
  const audit = makeAuditEntry({ type: 'key', id: 'key_1', address: '' }, NOW_MS, {
    org_id: 'org_a',
    action: 'run.delete',
    target: 'run-1',
  });
  const TABLES = ['runs', 'run_starts', 'run_lists', 'run_steps', 'run_deletions'];

  function rowsLeft(subject: RunUnderTest): Record<string, number> {
    const counts = TABLES.map((table) => [table, [...subject.tables.range(table, { prefix: [] })].length]);
    return Object.fromEntries(counts.filter(([, count]) => count !== 0));
  }

  async function remove(subject: RunUnderTest, projectId: string | null = null): Promise<KitAnswer> {
    const answer = subject.kit.ask('delete', { project_id: projectId, audit });
    await subject.settle();
    return answer;
  }

  it('is removed with its steps and its history, and its usage stays', async () => {
    const subject = new RunUnderTest();
    await subject.start(makeStart({ experiment_id: 'exp', arm: 'on' }));
    for (let index = 0; index < 2; index++) await subject.step(makeStep(index));
    subject.sendKeyed(['a key']);
    await subject.settle();
    const usage = subject.tables.get('usage', ['org_a', '2026-01-31', 'proj_a']);
    expect(codeOf(await remove(subject, 'proj_b'))).toBe('run_not_found');
    expect(codeOf(await remove(subject))).toBe('reply');
    expect(rowsLeft(subject)).toEqual({});
    expect(subject.kit.eventCount).toBe(0);
    expect(subject.state).toEqual(UNKNOWN_RUN);
    expect(subject.tables.get('usage', ['org_a', '2026-01-31', 'proj_a'])).toEqual(usage);
    const [kept, ...others] = [...subject.tables.range<RunSummary>('runs_by_experiment', { prefix: [] })];
    expect(others).toEqual([]);
    expect(kept!.value).toMatchObject({ arm: 'on', steps: 3, tokens: 30, experiment_id: 'exp' });
    expect(JSON.stringify(kept)).not.toContain('run-1');
    expect(subject.tables.get('audit_outbox', ['org_a', audit.id])).toEqual(audit);
    expect(codeOf(await remove(subject))).toBe('run_not_found');
    subject.kit.restart();
    expect(codeOf(await subject.step(makeStep(4)))).toBe('run_not_found');
  });

  it('is a new run when it is started again, and counts in addition to the first', async () => {
    const subject = new RunUnderTest();
    await subject.start(makeStart({ experiment_id: 'exp', arm: 'on' }));
    await subject.step(makeStep(0));
    await remove(subject);
    subject.kit.advance(1_000);
    const other = makeStart(
      { experiment_id: 'exp', arm: 'off', project_id: 'proj_b' },
      { fingerprint: 'f2' },
    );
    expect(JSON.parse(replyOf(await subject.start(other))).started_at).toBe('2026-02-01T00:00:00.500Z');
    await subject.step(makeStep(0, { action: 'another' }));
    expect(subject.state).toMatchObject({ steps: 1, started_at_ms: NOW_MS + 1_000 });
    expect([...subject.tables.range('runs_by_experiment', { prefix: [] })]).toHaveLength(2);
    subject.kit.restart();
    expect(subject.state.steps).toBe(1);
  });

  it('is hidden at once if it is long, and removed in portions, also after a crash', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    const steps = 2 * RUN_DELETE_STEPS + 5;
    for (let index = 0; index < steps; index++) subject.kit.ask('step', packStep(null, makeStep(index)));
    await subject.settle();
    await remove(subject);
    expect(rowsLeft(subject)).toEqual({ run_steps: steps, run_deletions: 1 });
    expect(codeOf(subject.kit.ask('evaluate', { project_id: null }))).toBe('run_not_found');
    expect(codeOf(await subject.start())).toBe('run_deleting');
    subject.kit.restart();
    const left: number[] = [];
    subject.kit.advance(0);
    for (const effect of subject.kit.takeEffects()) {
      if (effect.type !== 'persist') continue;
      await subject.tables.transact((tx) => {
        for (const row of effect.rows) tx.write(row);
      });
      left.push(rowsLeft(subject)['run_steps'] ?? 0);
    }
    expect(left).toEqual([RUN_DELETE_STEPS + 5, 5, 0]);
    expect(rowsLeft(subject)).toEqual({});
    expect(subject.kit.eventCount).toBe(0);
    expect(codeOf(await subject.start())).toBe('reply');
  });

  it('refuses a step that was still being looked up, as if the run did not exist', async () => {
    const subject = new RunUnderTest();
    await subject.start();
    await subject.step(makeStep(5));
    const late = subject.send(makeStep(1));
    subject.kit.ask('delete', { project_id: null, audit: null });
    await subject.settle();
    expect(codeOf(late())).toBe('run_not_found');
    expect(rowsLeft(subject)).toEqual({});
  });
});

function stepOf(index: number): MonitorStep {
  return index % 3 === 0 ? makeRepeat(index) : makeStep(index);
}

describe('the address of a run', () => {
  it('is a valid key for the longest identifiers, and different for each', () => {
    const long = '\u{1f600}'.repeat(128);
    const keys = [runAddress('a', 'b'), runAddress(long, long), runAddress(long, `${long.slice(2)}a`)].map(
      ({ key }) => key,
    );
    expect(keys.every(isValidKey)).toBe(true);
    expect(new Set(keys).size).toBe(3);
  });
});
