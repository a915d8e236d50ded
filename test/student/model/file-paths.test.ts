/** Paths of files, and answers whose paths follow from the session's folder and the task. */
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import { isAbsolutePath, joinPath, listFolders, pathWithin } from '../../../src/student/model/file-paths.ts';
import type { StepDigest } from '../../../src/student/model/step.ts';
import { Student } from '../../../src/student/model/student.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';
import { callAnswer, called, digest, tool, user } from './made-steps.ts';

describe('a path', () => {
  it.each([
    ['/srv/app', 'src/a.py', '/srv/app/src/a.py'],
    ['/srv/app/', './src/a.py', '/srv/app/src/a.py'],
    ['/srv/app', 'src/../a.py', '/srv/app/a.py'],
    ['/srv/app', '/etc/hosts', '/etc/hosts'],
    ['/srv/My Files', 'My Plan.txt', '/srv/My Files/My Plan.txt'],
    ['C:\\app', 'src/a.py', 'C:\\app\\src\\a.py'],
    ['/srv/app', '../other/a.py', undefined],
    ['/srv/app', 'src/../../a.py', undefined],
    ['/srv/app', '', undefined],
    ['/srv/app', 'a\nb', undefined],
    ['app', 'a.py', undefined],
    ['//server/share', 'a.py', undefined],
  ])('in %j joined with %j is %j', (folder, path, joined) => {
    expect(joinPath(folder, path)).toBe(joined);
  });

  it.each([
    ['/srv/app', '/srv/app/src/a.py', 'src/a.py'],
    ['/srv/app/', '/srv/app/a.py', 'a.py'],
    ['/srv/app', '/srv/app/..a', '..a'],
    ['C:\\app', 'C:\\app\\src\\a.py', 'src\\a.py'],
    ['/srv/app', '/srv/apple/a.py', undefined],
    ['/srv/app', '/srv/app', undefined],
    ['/srv/app', '/srv', undefined],
    ['/srv/app', 'src/a.py', undefined],
    ['C:\\app', 'D:\\app\\a.py', undefined],
    ['/srv/app', 'C:\\app\\a.py', undefined],
  ])('relative to %j of %j is %j', (folder, path, relative) => {
    expect(pathWithin(folder, path)).toBe(relative);
  });

  it('has folders', () => {
    expect(listFolders('/srv/app/src/a.py')).toEqual(['/srv/app/src', '/srv/app', '/srv']);
    expect(listFolders('C:\\app\\a.py')).toEqual(['C:\\app']);
    expect(isAbsolutePath('/')).toBe(false);
  });
});

const WORDS = 'amber birch cedar delta ember fjord grove haven inlet jetty knoll larch maple'.split(' ');
const pick = (random: Prng): string => WORDS[random.below(WORDS.length)]!;
const name = (random: Prng): string => `${pick(random)}-${pick(random)}`;

interface Made {
  step: StepDigest;
  answer: AnswerDigest;
}

/** Whether a student that has learnt 40 runs gives the right answer in 8 other runs. */
function learns(make: (random: Prng) => Made): boolean {
  const steps = Array.from({ length: 40 }, (_, i) => ({ run_id: `run-${i}`, ...make(createPrng(i + 1)) }));
  const student = new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
  return Array.from({ length: 8 }, (_, i) => make(createPrng(900 + i))).every(({ step, answer }) => {
    const said = student.propose(step).answer?.content;
    return JSON.stringify(said) === JSON.stringify(answer.content);
  });
}

/** A prompt as long as those of coding agents, with many lines that seem to change, before the line with the folder. */
function prompt(folder: string) {
  const rules = Array.from(
    { length: 30 },
    (_, i) => `Rule ${i + 1}: you may use a tool ${i + 2} times at most.`,
  );
  const text = [...rules, `Primary working directory: ${folder}`, 'Platform: linux'].join('\n');
  return { system: [{ type: 'text' as const, text }], tools: ['Read', 'Find', 'Grep'].map(tool) };
}

const folderOf = (random: Prng): string =>
  `/home/${pick(random)}/${['work', 'My Files'][random.below(2)]}/session-${random.below(9_000)}`;

describe('a student learns a path that is', () => {
  it('the folder of the prompt, constant parts, and a name of the task', () => {
    const make = (random: Prng, isRight = true): Made => {
      const [folder, other, service] = [folderOf(random), folderOf(random), name(random)];
      const step = digest([user(`Which port does the service ${service} listen on?`)], prompt(folder));
      const file_path = `${isRight ? folder : other}/config/${service}.json`;
      return { step, answer: callAnswer('Read', { file_path }) };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, false))).toBe(false);
  });

  it('the folder of the prompt and a relative path of the task, in either notation', () => {
    const make = (random: Prng, isRight = true): Made => {
      const folder = `${folderOf(random)}/${'a-long-name-of-a-folder/'.repeat(3)}code`;
      const path = [pick(random), name(random)].slice(random.below(2)).join('/');
      const dot = random.below(2) === 0 ? './' : '';
      const step = digest([user(`Read the file ${dot}${path}.py and explain it.`)], prompt(folder));
      const file_path = `${folder}/${isRight ? path : name(random)}.py`;
      return { step, answer: callAnswer('Read', { file_path }) };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, false))).toBe(false);
  });

  it('the folder of the prompt and a relative path of a result', () => {
    const make = (random: Prng): Made => {
      const folder = folderOf(random);
      const [wanted, path] = [pick(random), `src/${pick(random)}/${name(random)}.py`];
      const found = `${path}:${1 + random.below(90)}:def ${wanted}():`;
      const step = digest(
        [user(`Explain ${wanted}.`), ...called('Grep', { pattern: `def ${wanted}` }, found)],
        prompt(folder),
      );
      return { step, answer: callAnswer('Read', { file_path: `${folder}/${path}` }) };
    };
    expect(learns(make)).toBe(true);
  });

  it('a path of a result, relative to the folder of the prompt', () => {
    const make = (random: Prng, isRight = true): Made => {
      const folder = folderOf(random);
      const path = [pick(random), pick(random), name(random)].slice(random.below(3)).join('/');
      const step = digest(
        [user('Explain it.'), ...called('Find', { name: 'it' }, `${folder}/${path}.py`)],
        prompt(folder),
      );
      const file = isRight ? `${path}.py` : `${name(random)}.py`;
      return { step, answer: callAnswer('Grep', { file }) };
    };
    expect(learns((random) => make(random))).toBe(true);
    expect(learns((random) => make(random, false))).toBe(false);
  });

  it('the folder, or the name, of a file of the task', () => {
    const make = (random: Prng, part: 'folder' | 'name'): Made => {
      const folder = [pick(random), pick(random), pick(random)].slice(random.below(2)).join('/');
      const file = `${name(random)}.py`;
      const step = digest([user(`Look at src/${folder}/${file} please.`)], prompt('/srv/app'));
      return { step, answer: callAnswer('Find', { at: part === 'name' ? file : `src/${folder}` }) };
    };
    expect(learns((random) => make(random, 'folder'))).toBe(true);
    expect(learns((random) => make(random, 'name'))).toBe(true);
  });

  it('the folder, or the name, of a file of a result', () => {
    const make = (random: Prng, part: 'folder' | 'name'): Made => {
      const [folder, file] = [`${folderOf(random)}/${pick(random)}`, `${name(random)}.py`];
      const result = JSON.stringify({ found: `${folder}/${file}` });
      const step = digest([user('Look.'), ...called('Grep', { at: 'x' }, result)], prompt('/srv/app'));
      return { step, answer: callAnswer('Find', { at: part === 'name' ? file : folder }) };
    };
    expect(learns((random) => make(random, 'folder'))).toBe(true);
    expect(learns((random) => make(random, 'name'))).toBe(true);
  });
});
