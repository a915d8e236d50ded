/** `understudy student`: versions are listed, shown, published and rolled back; agents are suspended and resumed. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { publishStudent, readStudentDirectory, readStudentManifest } from '../../src/student/directory.ts';
import type { StudentManifest } from '../../src/student/model/manifest.ts';
import type { StudentModel } from '../../src/student/model/student-model.ts';
import { readOrders } from '../../src/student/orders.ts';
import { writeWatchFile } from '../../src/student/watch-file.ts';
import { runHere } from './here.ts';

let folder: string;
let directory: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-student-'));
  directory = join(folder, 'student');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (...argv: string[]) =>
  runHere(['student', ...argv], { DATA_DIR: join(folder, 'data'), SVC_DISTILL_DIR: directory });
const json = async (...argv: string[]) => {
  const { code, stdout, stderr } = await run(...argv, '--json');
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Record<string, unknown>;
};
const refuse = async (code: number, words: string, ...argv: string[]) => {
  const ended = await run(...argv);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
};

type Kinds = NonNullable<NonNullable<StudentManifest['coverage']['agents']>[number]['kinds']>;

/** Publishes a version with two agents. The names of its groups contain `mark`. */
function publish(mark: string, threshold = 0.25, kinds: Kinds = []) {
  const agent = (name: string) => ({
    agent: name,
    title: `You sort ${name} tickets`,
    kinds: [...kinds],
    tools: ['look', 'book'],
    threshold,
    evidence: 'own' as const,
    runs: 20,
    steps: 90,
    served: 70,
    errors: 1,
    measured: { steps: 20, served: 15, errors: 1 },
  });
  const model: StudentModel = {
    format: 'svc_student_model_v2',
    support_min: 2,
    runs: 1,
    steps: 1,
    groups: ['triage.0', 'cluster.0'].map((name) => ({ name, mark })),
  };
  const coverage = {
    threshold,
    target_error: 0.05,
    method: 'by hand',
    agents: ['triage.0', 'cluster.0'].map(agent),
  };
  return publishStudent(directory, makeDraft({ coverage }), model);
}

describe('versions', () => {
  it('are listed, shown, published and rolled back', async () => {
    for (const mark of ['one', 'two', 'three']) await publish(mark);
    expect(await json('list')).toMatchObject({
      held: false,
      versions: [
        { version: 3, state: 'serves', agents: 2, served: 30, steps: 40, errors: 1 },
        { version: 2, state: 'kept' },
        { version: 1, state: 'kept' },
      ],
    });
    const { stdout } = await run('list');
    expect(stdout).toMatch(/VERSION +STATE .*\n +3 +serves .* 30 of 40 +1\n +2 +kept/);

    expect(await json('rollback')).toMatchObject({ version: 2, held: true });
    expect((await readStudentManifest(directory)).version).toBe(2);
    expect((await run('list')).stdout).toContain('Held: rounds store new versions');
    expect(await json('rollback')).toMatchObject({ version: 1 });
    await refuse(1, 'no earlier version is kept', 'rollback');
    await refuse(1, 'version 1 serves already', 'rollback', '--to', '1');

    expect(await json('publish', '--share', '0.1')).toMatchObject({ version: 3, share: 0.1 });
    expect(await readOrders(directory)).toMatchObject({ held: false, shares: [{ version: 3, share: 0.1 }] });
    expect(await json('show')).toMatchObject({ version: 3, state: 'serves 10 %', share: 0.1 });
    await json('publish', 'v2', '--hold');
    expect(await json('show')).toMatchObject({ version: 2, state: 'serves', held: true });
    expect(await json('show', '3')).toMatchObject({ version: 3, state: 'kept' });
    expect((await run('show')).stdout).toMatch(/triage\.0 +serving/);
  });

  it('are reported in one line if there is no student, or a broken one', async () => {
    await refuse(1, 'no such directory', 'list');
    await refuse(1, 'no such directory', 'suspend', '--all');
    expect(existsSync(directory)).toBe(false);
    await publish('one');
    await refuse(1, 'version 7 is not kept', 'show', '7');
    await refuse(1, 'version 7 is not kept', 'publish', '7');
    await publish('two');
    writeFileSync(join(directory, 'manifest.v1.json'), '{');
    await refuse(1, 'not JSON', 'publish', '1');
    expect(await json('list')).toMatchObject({
      versions: [{ version: 2 }, { version: 1, state: 'unreadable' }],
    });
    writeFileSync(join(directory, 'manifest.json'), '{');
    const damaged = await run('list');
    expect([damaged.code, damaged.stdout]).toEqual([1, expect.stringMatching(/^ +2 +kept/m)]);
    expect(damaged.stderr).toMatch(/manifest\.json: not JSON.*\n.*publish VERSION/);
    expect((await run('list', '--json')).code).toBe(1);
    await run('publish', '2');
    expect((await run('list')).code).toBe(0);
    writeFileSync(join(directory, 'orders.json'), '{');
    await refuse(1, 'orders.json: damaged', 'suspend', '--all');
  });

  it('can be rolled back for a single agent', async () => {
    const first = await publish('one', 0.1);
    await publish('two', 0.3);
    expect(await json('rollback', 'triage')).toMatchObject({
      version: 3,
      agent: 'triage.0',
      from: 1,
      held: true,
    });
    const { manifest, model } = await readStudentDirectory(directory);
    expect(manifest.coverage).toMatchObject({
      threshold: 0.3,
      agents: [
        { agent: 'cluster.0', threshold: 0.3 },
        { agent: 'triage.0', threshold: 0.1 },
      ],
    });
    expect(model.groups).toEqual([
      { name: 'cluster.0', mark: 'two', limit: 0.3 },
      { name: 'triage.0', mark: 'one', limit: 0.1 },
    ]);
    expect(manifest.golden.fingerprint).not.toBe(first.golden.fingerprint);
    await refuse(1, 'there is no agent unknown', 'rollback', 'unknown');
  });
});

describe('agents', () => {
  it('are suspended and resumed: by name, by the beginning of a name, by kind of answer, or all of them', async () => {
    await publish('one');
    expect(await json('suspend', 'tri', '--kind', 'book')).toMatchObject({ agent: 'triage.0', kind: 'book' });
    // This kind, of a model's answers, calls the same tools with new values.
    expect(await json('suspend', 'tri', '--kind', 'book + (new values)')).toMatchObject({ kind: 'book' });
    expect(await json('suspend', 'cluster.0')).toMatchObject({ agent: 'cluster.0', kind: null });
    expect(await json('show')).toMatchObject({
      agents: [
        { agent: 'triage.0', state: 'serving', audited: [{ kind: 'book', state: 'suspended' }] },
        { agent: 'cluster.0', state: 'suspended', suspended_by: 'operator' },
      ],
    });
    expect((await run('show')).stdout).toMatch(/cluster\.0 +suspended \(operator\)/);
    expect((await run('resume', 'cluster.0')).stdout).toBe(
      'cluster.0 may be served again, and is audited first\n',
    );
    await json('suspend', '--all');
    expect(await json('show')).toMatchObject({ agents: [{ state: 'suspended' }, { state: 'suspended' }] });
    await json('resume', '--all');
    expect(await json('show')).toMatchObject({
      agents: [{ state: 'serving' }, { state: 'serving', audited: [] }],
    });
    await refuse(1, 'there is no agent x', 'suspend', 'x');
    await refuse(1, '2 agents have an id that begins with', 'suspend', '');
  });

  it('are called by the first words of their prompts until they are renamed', async () => {
    await publish('one');
    const names = async () =>
      ((await json('show')).agents as { name: string; is_named: boolean }[]).map(({ name, is_named }) => [
        name,
        is_named,
      ]);
    expect(await names()).toEqual([
      ['You sort triage.0 tickets', false],
      ['You sort cluster.0 tickets', false],
    ]);
    expect((await run('rename', 'tri', ' Support\u001b\n desk ')).stdout).toBe(
      'triage.0 is called Support desk\n',
    );
    expect(await names()).toEqual([
      ['Support desk', true],
      ['You sort cluster.0 tickets', false],
    ]);
    // The name is stored beside the student, survives a round, and identifies the variant in other commands.
    await publish('two');
    expect(await json('suspend', 'Support desk')).toMatchObject({ agent: 'triage.0' });
    expect((await run('show')).stdout).toMatch(
      /triage\.0 +suspended \(operator\).* Support desk +look, book\n/,
    );
    expect(await json('rename', 'triage.0')).toMatchObject({ agent: 'triage.0', name: null });
    expect((await names())[0]).toEqual(['You sort triage.0 tickets', false]);
    await refuse(2, 'a name needs a character', 'rename', 'triage.0', '\u200b');
    await refuse(2, 'name the agent variant', 'rename');
    await refuse(1, 'there is no agent x', 'rename', 'x', 'Support desk');
    writeFileSync(join(directory, 'names.json'), '{}');
    await refuse(1, 'names.json: damaged', 'rename', 'triage.0', 'Support desk');
    expect((await run('show')).stderr).toContain('names of agent variants cannot be read');
  });

  it('are shown with the reasons why kinds of answers are not served, and with what would change that', async () => {
    const kind = {
      kind: 'book',
      threshold: null,
      refused: 'too_few' as const,
      is_final: true,
      runs: 0,
      steps: 0,
      errors: 0,
      seen_runs: 38,
      needed_runs: 26,
      confidence: 0.998,
      error_at_most: 1,
    };
    await publish('one', 0.25, [kind]);
    expect((await run('show')).stdout).toContain(
      'Not served of You sort triage.0 tickets (triage.0):\n' +
        '  book: of 38 golden runs with it, none is near enough to another one; would be served if 26 golden runs were alike\n',
    );
  });

  it('are shown with their audits; a suspension by an audit can be undone', async () => {
    await publish('one');
    const state = { observed: 40, wrong: 9, bets: [1, 1, 1, 1] };
    await writeWatchFile(join(folder, 'data', 'student-watch.json'), {
      version: 1,
      agents: [
        [
          'triage.0',
          {
            ...state,
            suspended_at_ms: null,
            kinds: [['book', { ...state, suspicion: 2, suspended_at_ms: 5 }]],
          },
        ],
        ['gone.0', { ...state, suspended_at_ms: 5, kinds: [] }],
      ],
    });
    expect(await json('show')).toMatchObject({
      agents: [
        { agent: 'triage.0', compared: 40, wrong: 9, audited: [{ kind: 'book', state: 'suspended' }] },
        { agent: 'cluster.0', compared: 0 },
        { agent: 'gone.0', state: 'suspended', suspended_by: 'audit' },
      ],
    });
    expect((await run('show')).stdout).toContain(
      'triage.0: book is suspended, 9 of 40 audited answers wrong',
    );
    await json('resume', 'triage.0');
    expect(await json('show')).toMatchObject({
      agents: [{ audited: [{ kind: 'book', state: 'suspect' }] }, {}, { state: 'suspended' }],
    });
  });
});

describe('wrong use', () => {
  it('is refused, and changes nothing', async () => {
    await publish('one');
    const before = readdirSync(directory);
    await refuse(2, 'name the action: list, show', 'dance');
    await refuse(2, 'name the agent variant: understudy student suspend AGENT, or --all', 'suspend');
    await refuse(2, 'name the agent variant', 'resume', 'triage.0', '--all');
    await refuse(2, '--share requires publish', 'rollback', '--share', '0.1');
    await refuse(2, '--share takes a number from 0 to 1', 'publish', '--share', '10');
    await refuse(2, 'a version is a whole number', 'show', 'newest');
    await refuse(2, 'belongs to no option', 'list', 'all');
    const ended = await runHere(['student', 'list'], { DATA_DIR: join(folder, 'data') });
    expect([ended.code, ended.stderr.split('\n')[0]]).toEqual([
      2,
      'understudy: name the directory: --dir DIR, or SVC_DISTILL_DIR',
    ]);
    expect(readdirSync(directory)).toEqual(before);
  });
});
