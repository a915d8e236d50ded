/**
 * Two boxes that share runs in one PostgreSQL database. A run continues on any box that its requests reach, each step
 * counts once, and lists, reports and usage are the same on all boxes. Own processes.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import type { Answer, ControlPlaneChild, Person } from '../fixtures/control-plane.ts';
import { SECRET } from '../fixtures/control-plane.ts';
import { exportLogs, type MadeEvent, makeLogs } from '../fixtures/otel-sdk.ts';
import { makeFolder } from '../storage/folder.ts';
import { SharedBoxes } from './shared-boxes.ts';

const ENV = { VECTOR_STORE_URL: 'embedded:', PLAN_CAPS: '{"free": 3}' };

let boxes: SharedBoxes;
let a: ControlPlaneChild;
let b: ControlPlaneChild;
beforeAll(async () => {
  boxes = await SharedBoxes.start();
  a = await boxes.open(ENV);
  b = await boxes.open(ENV);
});
afterAll(() => boxes[Symbol.asyncDispose]());

/** A person with a key, and an agent whose requests see the effects of earlier ones on all boxes. */
class Agent {
  readonly person: Person;
  readonly key: string;
  #position = '0';

  static async open(name: string): Promise<Agent> {
    const person = await a.person(name);
    const { body } = await a.call(person.token, 'POST', '/api-keys/', { name: 'ci' });
    await expect.poll(async () => (await b.call(body.raw_key, 'GET', '/v1/findings')).status).toBe(200);
    return new Agent(person, body.raw_key);
  }

  private constructor(person: Person, key: string) {
    this.person = person;
    this.key = key;
  }

  async ask(box: ControlPlaneChild, method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(box.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.key}`,
        'x-svc-position': this.#position,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const { status, headers } = response;
    const position = headers.get('x-svc-position') ?? '0';
    if (Number(position) > Number(this.#position)) this.#position = position;
    return { status, text, body: text === '' ? undefined : JSON.parse(text), headers };
  }

  /** @throws an assertion for any status but success */
  async do(box: ControlPlaneChild, method: string, path: string, body?: object): Promise<Answer> {
    const answer = await this.ask(box, method, path, body);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
    return answer;
  }

  start(box: ControlPlaneChild, run_id: string, more: object = {}): Promise<Answer> {
    return this.do(box, 'POST', '/v1/monitor/runs', { run_id, task: 'turn the crane', ...more });
  }

  step(box: ControlPlaneChild, run_id: string, step_index: number): Promise<Answer> {
    const step = { step_index, action: 'look', observation: `angle ${step_index}`, tokens: 10 };
    return this.do(box, 'POST', `/v1/monitor/runs/${run_id}/steps`, step);
  }

  finish(box: ControlPlaneChild, run_id: string): Promise<Answer> {
    return this.do(box, 'POST', `/v1/monitor/runs/${run_id}/finish`, { outcome: 'success' });
  }

  async read(box: ControlPlaneChild, path: string) {
    return (await this.do(box, 'GET', path)).body;
  }
}

it('a run that starts on one box continues and ends on the other', async () => {
  const ann = await Agent.open('ann');
  const started = await ann.start(a, 'r');
  expect((await ann.start(b, 'r')).text).toBe(started.text);
  const first = await ann.step(b, 'r', 0);
  expect((await ann.step(a, 'r', 0)).text).toBe(first.text);
  await ann.step(a, 'r', 1);
  const running = { run_id: 'r', status: 'running', steps: 2, tokens: 20 };
  for (const box of [a, b]) {
    expect(await ann.read(box, '/v1/monitor/runs/r')).toMatchObject(running);
    expect((await ann.read(box, '/v1/monitor/runs')).runs).toMatchObject([running]);
  }
  const ended = await ann.finish(b, 'r');
  expect(ended.body).toMatchObject({ steps: 2, tokens: 20, outcome: 'success' });
  expect((await ann.finish(a, 'r')).text).toBe(ended.text);
  expect((await ann.step(a, 'r', 0)).text).toBe(first.text);
  expect((await ann.ask(a, 'POST', '/v1/monitor/runs/r/steps', { step_index: 2 })).status).toBe(409);
  for (const box of [a, b]) {
    expect((await ann.read(box, '/v1/monitor/runs?status=finished')).runs).toMatchObject([
      { run_id: 'r', outcome: 'success', steps: 2 },
    ]);
    expect((await ann.read(box, '/v1/monitor/runs?q=agent:*')).runs).toEqual([]);
    expect((await ann.read(box, '/v1/monitor/runs/r/steps')).steps).toMatchObject([
      { step_index: 0, observation: 'angle 0' },
      { step_index: 1, observation: 'angle 1' },
    ]);
  }
});

it('steps that go to both boxes in turn and at once have the scores of one box', async () => {
  const bob = await Agent.open('bob');
  for (const run of ['turns', 'alone']) await bob.start(a, run);
  const steps = 12;
  const answers: string[] = [];
  for (let at = 0; at < steps; at++) {
    const [near, far] = at % 2 === 0 ? [a, b] : [b, a];
    answers.push((await bob.step(near, 'turns', at)).text);
    expect((await bob.step(a, 'alone', at)).text).toBe(answers[at]);
    // The agent sends the same step again, to both boxes at once.
    const again = await Promise.all([bob.step(near, 'turns', at), bob.step(far, 'turns', at)]);
    expect(again.map(({ text }) => text)).toEqual([answers[at], answers[at]]);
  }
  const totals = await bob.read(b, '/v1/monitor/runs/turns');
  expect(totals).toMatchObject({ steps, tokens: 10 * steps });
  const [page, rest] = [
    await bob.read(b, '/v1/monitor/runs/turns/steps?limit=7'),
    await bob.read(a, '/v1/monitor/runs/turns/steps'),
  ];
  expect(rest.steps).toHaveLength(steps);
  expect(page.steps).toEqual(rest.steps.slice(0, 7));
  const next = await bob.read(a, `/v1/monitor/runs/turns/steps?cursor=${page.next_cursor}`);
  expect([...page.steps, ...next.steps]).toEqual(rest.steps);
});

it('a run whose box was killed continues on the other box, with every acknowledged step', async () => {
  const eve = await Agent.open('eve');
  const box = await boxes.open(ENV);
  await eve.start(box, 'r');
  const last = await eve.step(box, 'r', 0).then(() => eve.step(box, 'r', 1));
  await box.kill();
  expect((await eve.step(b, 'r', 1)).text).toBe(last.text);
  await eve.step(b, 'r', 2);
  expect((await eve.finish(a, 'r')).body).toMatchObject({ steps: 3, tokens: 30 });
  await box.start();
  expect((await eve.read(box, '/v1/monitor/runs/r/steps')).steps).toHaveLength(3);
});

it('usage is the sum over all boxes, and a retrieval counts against one cap', async () => {
  const fay = await Agent.open('fay');
  for (const [at, box] of [a, b, a].entries()) {
    await fay.start(box, `r${at}`);
    await fay.step(box, `r${at}`, 0);
    await fay.step(at === 1 ? a : b, `r${at}`, 1);
  }
  const situation = 'the encoder of the harbour crane reports a wrong angle';
  const patterns = [{ situation, dead_ends: 'turn it by hand', unlock: 'calibrate it at low tide' }];
  await fay.do(a, 'POST', '/v1/patterns', { tier: 'e2', patterns });
  const find = async (box: ControlPlaneChild) => {
    const asked = { context: situation, tier: 'e2', top_k: 1 };
    return (await fay.do(box, 'POST', '/v1/traces/retrieve', asked)).body.traces.length;
  };
  await expect.poll(() => find(b)).toBe(1);
  expect([await find(a), await find(b), await find(a), await find(b)]).toEqual([1, 1, 0, 0]);
  for (const box of [a, b]) {
    const { totals } = (await box.call(fay.person.token, 'GET', '/usage/?days=2')).body;
    expect(totals).toMatchObject({ runs: 3, steps: 6, tokens: 60, injections: 3 });
    const { body } = await box.call(fay.person.token, 'GET', '/billing/intervention-usage');
    expect(body).toMatchObject({ used: 3, cap: 3, remaining: 0 });
    const stats = (await box.call(fay.person.token, 'GET', '/usage/stats')).body;
    expect(stats.injections).toMatchObject({ total: 3, retrieve: 3 });
  }
});

it('a run that is deleted on one box is gone on the other, and its name is free', async () => {
  const gil = await Agent.open('gil');
  await gil.start(a, 'r', { experiment_id: 'x', arm: 'on' });
  await gil.step(b, 'r', 0);
  await gil.do(a, 'DELETE', '/v1/monitor/runs/r');
  for (const box of [b, a]) {
    expect((await gil.ask(box, 'GET', '/v1/monitor/runs/r')).status).toBe(404);
    expect((await gil.ask(box, 'GET', '/v1/monitor/runs/r/steps')).status).toBe(404);
    expect((await gil.ask(box, 'POST', '/v1/monitor/runs/r/steps', { step_index: 1 })).status).toBe(404);
    expect((await gil.read(box, '/v1/monitor/runs')).runs).toEqual([]);
  }
  await gil.start(b, 'r');
  expect((await gil.step(a, 'r', 0)).body.max_score).toBe(0);
  expect((await gil.read(b, '/v1/monitor/runs/r/steps')).steps).toHaveLength(1);
  const { body } = await b.call(gil.person.token, 'GET', `/organizations/${gil.person.org_id}/audit-log`);
  const deletions = body.filter(({ action }: { action: string }) => action === 'run.delete');
  expect(deletions).toHaveLength(1);
});

it('a tool call that telemetry reports to both boxes is one step', async () => {
  const leo = await Agent.open('leo');
  const call = (number: number): MadeEvent => ({
    body: 'claude_code.tool_result',
    at_ms: 1_795_459_738_000 + number,
    attributes: {
      'session.id': 'told',
      'event.name': 'tool_result',
      'event.sequence': number,
      tool_name: 'Bash',
      tool_use_id: `toolu_${number}`,
      success: 'true',
      tool_input: '{"command":"true"}',
    },
  });
  const tell = async (box: ControlPlaneChild, ...numbers: number[]) => {
    const logs = await makeLogs('com.anthropic.claude_code.events', {}, numbers.map(call));
    const sent = await exportLogs(logs, { endpoint: `${box.url}/otel`, key: leo.key });
    expect(sent).toEqual({ code: 0, error: '' });
  };
  await tell(a, 1);
  await tell(b, 1, 2);
  await Promise.all([tell(a, 2, 3), tell(b, 2, 3)]);
  await expect
    .poll(async () => (await leo.ask(b, 'GET', '/v1/monitor/runs/told')).body)
    .toMatchObject({ steps: 3, status: 'running' });
  expect((await leo.read(a, '/v1/monitor/runs/told/steps')).steps).toHaveLength(3);
});

it('an evaluation on one box is known on the other', async () => {
  const mia = await Agent.open('mia');
  await mia.start(a, 'r');
  for (let step_index = 0; step_index < 12; step_index++) {
    const body = { step_index, action: 'search', action_input: '{"q":"x"}', observation: 'nothing found' };
    await mia.do(step_index % 2 === 0 ? a : b, 'POST', '/v1/monitor/runs/r/steps', body);
  }
  const evaluate = (box: ControlPlaneChild) => mia.do(box, 'POST', '/v1/monitors/evaluate', { run_id: 'r' });
  const first = await evaluate(a);
  expect(first.body.inject).toBe(true);
  expect((await evaluate(b)).text).toBe(first.text);
  const { totals } = (await b.call(mia.person.token, 'GET', '/usage/?days=2')).body;
  expect(totals).toMatchObject({ evaluations: 2, injections: 1 });
});

it('an experiment counts the runs of all boxes once', async () => {
  const hal = await Agent.open('hal');
  for (const [at, arm] of ['on', 'off', 'on', 'off'].entries()) {
    const [near, far] = at < 2 ? [a, b] : [b, a];
    await hal.start(near, `r${at}`, { experiment_id: 'x', arm });
    await hal.step(far, `r${at}`, 0);
    await hal.finish(far, `r${at}`);
  }
  const [ofA, ofB] = [
    await hal.read(a, '/v1/monitor/experiments/x/report'),
    await hal.read(b, '/v1/monitor/experiments/x/report'),
  ];
  expect(ofA).toEqual(ofB);
  expect([ofA.arms.on.runs, ofA.arms.off.runs]).toEqual([2, 2]);
  expect((await hal.read(b, '/v1/monitor/experiments')).experiments).toEqual([{ experiment_id: 'x' }]);
});

it('the rows of a deleted organization are removed from the database', { tags: 'long' }, async () => {
  const ivy = await Agent.open('ivy');
  for (const [at, box] of [a, b].entries()) {
    await ivy.start(box, `r${at}`);
    await ivy.step(box, `r${at}`, 0);
  }
  const { org_id, token } = ivy.person;
  const left = async () => {
    const [row] = await boxes.query(
      `SELECT (SELECT count(*) FROM understudy.run_rows WHERE position('${org_id}'::bytea IN key) > 0) AS queried,
        (SELECT count(*) FROM understudy.rows WHERE value IS NOT NULL
          AND tbl IN ('rows:runs', 'rows:run_starts', 'rows:run_lists') AND position('${org_id}'::bytea IN key) > 0) AS common`,
    );
    return [Number(row!.queried), Number(row!.common)];
  };
  expect((await left()).every((rows) => rows > 0)).toBe(true);
  expect((await b.call(token, 'DELETE', `/organizations/${org_id}`)).status).toBeLessThan(300);
  await expect.poll(left).toEqual([0, 0]);
});

it('a box has only a view, and does not start if its folder also has a database of runs', async () => {
  expect(readdirSync(a.dir).filter((name) => /^(?:main|runs)\./.test(name))).toEqual([]);
  const dir = makeFolder();
  writeFileSync(join(dir, 'runs.mdb'), '');
  const env = { DATA_DIR: dir, AUTH_DB_URL: boxes.address, AUTH_JWT_SECRET: SECRET };
  const { code, stderr } = await runHere(['serve', '--port', '0'], env);
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /has runs\.mdb, .*"understudy move --to postgres" moves the rows in DATA_DIR to that database/,
  );
  const backup = await runHere(['backup', '--out', join(dir, 'backup')], { DATA_DIR: a.dir });
  expect(backup).toMatchObject({ code: 1, stderr: expect.stringContaining('such as pg_dump') });
});

it('only one of the boxes does the work that is done for all boxes', async () => {
  const [row] = await boxes.query(
    `SELECT count(*) AS n FROM understudy.rows WHERE tbl = 'rows:duties' AND value IS NOT NULL`,
  );
  expect(row).toEqual({ n: '1' });
});

it('without the database, a run is refused; it continues when the database is reachable again', async () => {
  if (!boxes.server.isOurs) return;
  const kim = await Agent.open('kim');
  await kim.start(a, 'r');
  const first = await kim.step(a, 'r', 0);
  await kim.read(b, '/v1/monitor/runs/r');
  await boxes.server.kill();
  const refused = await kim.ask(a, 'POST', '/v1/monitor/runs/r/steps', { step_index: 1, tokens: 10 });
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect((await kim.ask(a, 'GET', '/v1/monitor/runs')).status).toBe(200);
  expect((await kim.ask(b, 'GET', '/v1/monitor/runs/r/steps')).status).toBe(503);
  await boxes.server.resume();
  await expect
    .poll(
      async () =>
        (await kim.ask(b, 'POST', '/v1/monitor/runs/r/steps', { step_index: 1, tokens: 10 })).status,
    )
    .toBe(200);
  expect((await kim.step(a, 'r', 0)).text).toBe(first.text);
  expect((await kim.finish(b, 'r')).body).toMatchObject({ steps: 2, tokens: 20 });
});
