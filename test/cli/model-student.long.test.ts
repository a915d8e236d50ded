/**
 * A student of kind `http` from golden runs to served steps: a model over a real socket is tested on held-out runs, and
 * then serves the kinds of steps that it answered well, even those that golden steps alone could not answer.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import type { StudentManifest } from '../../src/student/model/manifest.ts';
import { answerBasket, BasketRun, basketScript, captureBaskets } from '../fixtures/basket-agent.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { serverOf, startRelegatedGateway, stepBytes } from '../fixtures/relegated-gateway.ts';
import { runHere } from './here.ts';

const KEY = 'sk-student-4711-secret';
const GOLDEN = 110;

let folder = '';
let db = '';
let env: Record<string, string>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'model-student-'));
  db = join(folder, 'capture.mdb');
  env = { DATA_DIR: join(folder, 'data'), SVC_STUDENT_KEY: KEY };
  await captureBaskets(db, 0, GOLDEN);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs `distill` with a model that answers by this script. */
async function distil(script: Script, argv: (url: string) => string[]) {
  const model = await startFakeProvider({ script });
  try {
    const result = await runHere(['distill', '--db', db, ...argv(model.url)], env);
    return { ...result, requests: model.requests };
  } finally {
    await model.close();
  }
}

const asking =
  (out: string, ...more: string[]) =>
  (url: string) => [
    ...['--out', join(folder, out), '--student', 'http', '--endpoint', url, '--model', 'small', ...more],
  ];

const readManifest = (out: string): StudentManifest =>
  JSON.parse(readFileSync(join(folder, out, 'manifest.json'), 'utf8')) as StudentManifest;

const kindsOf = ({ coverage }: Pick<StudentManifest, 'coverage'>) =>
  Object.fromEntries(coverage.agents![0]!.kinds!.map(({ kind, refused }) => [kind, refused]));

/** A script whose computed answers are wrong once in `every` times. */
function makeForgetful(every: number): Script {
  let settled = 0;
  return (request) => {
    const answer = answerBasket(request);
    const [call] = answer.tool_calls ?? [];
    if (call?.name !== 'settle' || settled++ % every !== 0) return answer;
    return { tool_calls: [{ name: 'settle', input: { ...Object(call.input), code: 'cafe0000' } }] };
  };
}

describe('a model behind the student', () => {
  it('serves more than golden steps alone where the model is right, over real sockets', async () => {
    const alone = await runHere(['distill', '--db', db, '--out', join(folder, 'alone')], env);
    expect([alone.code, alone.stderr]).toEqual([0, '']);
    const asked = await distil(basketScript, asking('perfect'));
    expect([asked.code, asked.stderr]).toEqual([0, '']);
    const [own, perfect] = [readManifest('alone'), readManifest('perfect')];
    expect(own.measured.coverage).toBeLessThan(0.7);
    expect(perfect.measured).toMatchObject({ errors: 0, coverage: 1 });
    // Computed values do not occur in golden answers, so they need separate evidence.
    expect(kindsOf(perfect)).toMatchObject({ get_basket: null, 'settle + (new values)': null, text: null });
    for (const told of [asked.stdout, JSON.stringify(perfect)]) expect(told).not.toContain('4711');

    const upstream = await startFakeProvider({ script: basketScript });
    const model = await startFakeProvider({ script: basketScript });
    // The published student names the address of a model that has ended. The test replaces it by the new model's
    // address.
    const place = join(folder, 'live');
    const moved = await distil(basketScript, asking('live/student'));
    expect(moved.code).toBe(0);
    const manifest = join(place, 'student', 'manifest.json');
    const text = readFileSync(manifest, 'utf8');
    writeFileSync(manifest, text.replace(/"endpoint":\s*"[^"]*"/, `"endpoint":"${model.url}"`));
    const gateway = await startRelegatedGateway({
      upstream: upstream.url,
      folder: place,
      scripted: false,
      published: false,
      key: KEY,
    });
    try {
      await gateway.until(() => gateway.relegation.link.isReady);
      const served: string[] = [];
      for (let at = GOLDEN; at < GOLDEN + 3; at += 1) {
        const run = new BasketRun(at);
        for (let isOver = false; !isOver; ) {
          const result = await rawRequest(gateway.port, stepBytes(run.body()));
          served.push(serverOf(result));
          isOver = run.take((JSON.parse(result.body.toString()) as { content: [] }).content);
        }
      }
      expect(served).toEqual(Array(9).fill('student'));
      expect(JSON.stringify(gateway.logged)).not.toContain('4711');
      // Golden steps have no answer to this request, so the model is asked.
      const argv = ['relegation', 'explain', '2', '--db', db, '--dir', gateway.directory, '--json'];
      const explained = JSON.parse((await runHere(argv, env)).stdout) as { opinion: object };
      expect(explained.opinion).toMatchObject({
        decision: 'covered',
        kind: null,
        rule: expect.stringContaining('the model is asked'),
      });
    } finally {
      await gateway.close();
      await upstream.close();
      await model.close();
    }
  });

  it('serves the kinds of answers that it gets right, and not those that it gets wrong', async () => {
    const { code } = await distil(makeForgetful(3), asking('forgetful'));
    expect(code).toBe(0);
    const manifest = readManifest('forgetful');
    expect(manifest.measured.errors).toBe(0);
    expect(kindsOf(manifest)).toMatchObject({ get_basket: null, 'settle + (new values)': 'too_wrong' });
  });

  it('serves nothing when it is bad', async () => {
    const bad: Script = () => ({ tool_calls: [{ name: 'settle', input: { basket_id: 'B-1', code: '0' } }] });
    const { code, stdout } = await distil(bad, asking('bad'));
    expect(code).toBe(1);
    expect(stdout).toContain('it would serve nothing');
    expect(existsSync(join(folder, 'bad', 'manifest.json'))).toBe(false);
  });

  it('may be required to give the same answer twice; the round measures the cost and the gain', async () => {
    const flags = ['--answers', '2', '--held-out', '0.6'];
    const { code, stdout } = await distil(makeForgetful(9), asking('agreeing', ...flags));
    expect(code).toBe(0);
    const { student, measured } = readManifest('agreeing');
    expect(student).toMatchObject({ kind: 'http', answers: 2 });
    const service = measured.service!;
    expect(service.requests).toBe(2 * service.asked);
    expect(service.disagreed).toBeGreaterThan(0);
    // Single answers to `settle` steps are wrong too often, but two equal answers are right.
    expect(measured.served).toBeGreaterThan(service.single!.served);
    expect(measured.errors).toBe(0);
    expect(stdout).toMatch(/agreement +answers to \d+ steps disagreed/);
  });

  it('may be required to agree with golden steps', async () => {
    const { code } = await distil(basketScript, asking('both', '--with-exemplar'));
    expect(code).toBe(0);
    const { student, measured } = readManifest('both');
    expect(student).toMatchObject({ with_exemplar: true });
    // Golden steps have no answer to computed steps, so these are not served.
    expect(measured.coverage).toBeLessThan(0.7);
    expect(measured.service!.single!.served).toBeGreaterThan(measured.served);
  });
});

describe('distill --model-url', () => {
  const trying = (url: string): string[] => ['--model-url', url, '--model', 'small'];

  it('reports what a model would serve, for each agent and kind, and writes no files', {}, async () => {
    const before = readdirSync(folder).sort();
    const { code, stdout, requests } = await distil(makeForgetful(3), trying);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /settle \+ \(new values\) +\d+ +\d+ +\d+ +[\d.]+ % +wrong in \d+ of \d+ golden steps/,
    );
    expect(stdout).toContain('The model is good enough');
    expect(JSON.stringify(requests[0]!.raw_headers)).toContain(KEY);
    expect(stdout).not.toContain('4711');
    expect(readdirSync(folder).sort()).toEqual(before);
    const json = await distil(basketScript, (url) => [...trying(url), '--json']);
    const round = JSON.parse(json.stdout) as { outcome: string; student: { measured: { coverage: number } } };
    expect(round).toMatchObject({ outcome: 'evaluated', student: { measured: { coverage: 1, errors: 0 } } });
  });

  it('says so when the model is missing', async () => {
    const gone: FakeProvider = await startFakeProvider({ script: basketScript });
    await gone.close();
    const { code, stdout, stderr } = await runHere(['distill', '--db', db, ...trying(gone.url)], env);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^understudy: the service at http:\S+ failed 12 times in a row: [^\n]+\n$/);
  });
});
