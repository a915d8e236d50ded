/**
 * Content for tests that delete it through the API of a real service and then look for its bytes in every file of
 * DATA_DIR.
 */
import { basename, join } from 'node:path';
import { open } from 'lmdb';
import { expect, vi } from 'vitest';
import type { WholeService } from '../fixtures/whole-service.ts';
import { readAllFiles } from '../storage/captured.ts';

const CANARY = 'zebrawoodcanary4711';
export const KEPT = 'petrifiedlimestone';

/** The canary as plain text, in UTF-16, and in base64 at each of the three offsets. */
const FORMS = [
  Buffer.from(CANARY),
  Buffer.from(CANARY, 'utf16le'),
  ...[0, 1, 2].map((shift) => {
    const text = Buffer.from(' '.repeat(shift) + CANARY + ' '.repeat(3)).toString('base64');
    return Buffer.from(text.slice(shift === 0 ? 0 : 4, Math.floor(((shift + CANARY.length) * 4) / 3) - 1));
  }),
];

/** Names of the files that contain a form of the canary. Captures are excluded, because another command erases them. */
export function filesWithCanary(folder: string): string[] {
  return readAllFiles(folder)
    .filter(({ path }) => !basename(path).startsWith('capture'))
    .filter(({ bytes }) => FORMS.some((form) => bytes.includes(form)))
    .map(({ path }) => basename(path))
    .sort();
}

export class Caller {
  readonly #service: WholeService;
  readonly #credential: string;

  constructor(service: WholeService, credential: string) {
    this.#service = service;
    this.#credential = credential;
  }

  async send(method: string, path: string, body?: object): Promise<Record<string, never>> {
    const answer = await fetch(this.#service.api + path, {
      method,
      headers: { authorization: `Bearer ${this.#credential}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    expect(answer.status, `${method} ${path} ${text}`).toBeLessThan(300);
    return text === '' ? {} : JSON.parse(text);
  }
}

/** Creates a run, a trace, a pattern and a finding that contain these words. @returns the ids that the service chose */
async function fill(api: Caller, name: string, words: string): Promise<{ pattern: string; finding: string }> {
  await api.send('POST', '/v1/monitor/runs', { run_id: name, task: words });
  for (let step_index = 0; step_index < 4; step_index++)
    await api.send('POST', `/v1/monitor/runs/${name}/steps`, {
      step_index,
      action: 'run_tests',
      action_input: words,
      observation: `${words} ${'lorem ipsum '.repeat(step_index * 400)}`,
    });
  await api.send('POST', '/v1/traces', { trace_id: name, outcome: 'success', task: words, steps: [] });
  const { patterns } = (await api.send('POST', '/v1/patterns', {
    tier: 'e1',
    patterns: [{ situation: `the build of ${words} breaks`, dead_ends: words, unlock: words }],
  })) as unknown as { patterns: { pattern_id: string }[] };
  const { finding_id } = await api.send('POST', '/v1/findings/base', { content: words });
  return { pattern: patterns[0]!.pattern_id, finding: finding_id as unknown as string };
}

/** Steps from which a pattern is made. */
const distilled = [
  { action: 'run_tests', action_input: CANARY, observation: `Error: ${CANARY} is wrong`, is_error: true },
  { action: 'edit', action_input: `${CANARY}: add a day`, observation: 'edited' },
  { action: 'run_tests', action_input: CANARY, observation: `Error: ${CANARY} is off`, is_error: true },
  { action: 'edit', thought: `the zone of ${CANARY}`, action_input: 'use UTC', observation: 'edited' },
  { action: 'run_tests', action_input: CANARY, observation: '12 passed' },
].map((step, step_index) => ({ step_index, ...step }));

/**
 * Holds a read transaction in `main.mdb` and one in `runs.mdb` until `release` is called, so that an idle service
 * overwrites nothing.
 */
export function holdSnapshots(folder: string): { release(): Promise<void> } {
  const held = ['main.mdb', 'runs.mdb'].map((name) => {
    const root = open({ path: join(folder, name), noSubdir: true, readOnly: true, cache: false });
    return { root, transaction: root.useReadTransaction() };
  });
  return {
    release: async () => {
      for (const { root, transaction } of held) {
        transaction.done();
        await root.close();
      }
    },
  };
}

/**
 * Stores {@link KEPT} under the name `kept`, and {@link CANARY} under the name `gone` and in a second organization.
 * Waits until the service has made a pattern of the trace in that organization.
 */
export async function fillService(service: WholeService): Promise<{
  token: string;
  ann: Caller;
  key: Caller;
  org_id: string;
  pattern: string;
  finding: string;
}> {
  const token = (await service.run('token', '--email', 'ann@example.com')).trim();
  const ann = new Caller(service, token);
  const newKey = async (body: object) => {
    const { raw_key } = await ann.send('POST', '/api-keys/', { name: 'k', ...body });
    return new Caller(service, raw_key as unknown as string);
  };
  const key = await newKey({});
  await fill(key, 'kept', KEPT);
  const { pattern, finding } = await fill(key, 'gone', CANARY);
  const { id: org_id } = await ann.send('POST', '/organizations/', { name: 'doomed' });
  const doomed = await newKey({ org_id });
  await fill(doomed, 'lost', CANARY);
  await doomed.send('POST', '/v1/traces', {
    trace_id: 'taught',
    outcome: 'success',
    task: CANARY,
    steps: distilled,
  });
  await vi.waitFor(
    async () => {
      expect(await doomed.send('GET', '/v1/traces/taught')).toMatchObject({ status: 'done' });
    },
    { timeout: 60_000, interval: 200 },
  );
  return { token, ann, key, org_id: String(org_id), pattern, finding };
}
