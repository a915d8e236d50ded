/**
 * Seven small tasks for a coding agent, each with any number of variants with other names and values: the agent's
 * folder, a person's request, and the model's actions. The model knows only what the requests say, so it is also the
 * oracle for a student's answers.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ScriptedAnswer, ScriptedToolCall } from '../../src/demo/script.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';

interface SessionTask {
  /** By path in the folder. */
  files: Record<string, string>;
  prompt: string;
  /** The agent's last text if all actions succeeded. */
  answer: string;
  /** The resulting files, if the task changes any. */
  changed: Record<string, string>;
}

/** The calls with which a client's model works on files. Paths are relative to the session's folder. */
export interface TaskTools {
  shell(command: string): ScriptedToolCall;
  read(path: string): ScriptedToolCall;
  /** Replaces a text that is in the file once. */
  edit(path: string, from: string, to: string): ScriptedToolCall;
  /** Writes a file of one line. */
  write(path: string, line: string): ScriptedToolCall;
}

const WORDS =
  'amber birch cedar delta ember fjord grove haven inlet jetty knoll larch maple north ocean'.split(' ');
const PEOPLE = ['Ada', 'Grace', 'Edsger', 'Barbara', 'Donald', 'Frances', 'Alan', 'Radia'];

const pick = <T>(prng: Prng, list: readonly T[]): T => list[prng.below(list.length)]!;
const name = (prng: Prng): string => `${pick(prng, WORDS)}-${pick(prng, WORDS)}`;
const version = (prng: Prng): string => [1 + prng.below(9), prng.below(30), prng.below(30)].join('.');

const MAKERS: readonly ((prng: Prng) => SessionTask)[] = [
  (prng) => {
    const [service, port] = [name(prng), 1_024 + prng.below(60_000)];
    return {
      files: { [`config/${service}.json`]: JSON.stringify({ service, port, threads: 1 + prng.below(16) }) },
      prompt: `Which port does the service ${service} listen on?`,
      answer: `${service} listens on port ${port}.`,
      changed: {},
    };
  },
  (prng) => {
    const [folder, owner] = [name(prng), pick(prng, PEOPLE)];
    const mail = `${owner.toLowerCase()}@${pick(prng, WORDS)}.example`;
    return {
      files: { [`owners/${folder}.json`]: JSON.stringify({ folder, owner, mail }) },
      prompt: `Who owns the folder ${folder}?`,
      answer: `${owner} owns ${folder}: write to ${mail}.`,
      changed: {},
    };
  },
  (prng) => {
    const [pack, to] = [name(prng), version(prng)];
    const path = `packages/${pack}.json`;
    const json = (version: string): string => `${JSON.stringify({ package: pack, version })}\n`;
    return {
      files: { [path]: json(version(prng)) },
      prompt: `Set the version of the package ${pack} to ${to}.`,
      answer: `The package ${pack} is at version ${to} now.`,
      changed: { [path]: json(to) },
    };
  },
  (prng) => {
    const [file, line] = [`${name(prng)}.txt`, `${pick(prng, PEOPLE)} was here at ${10 + prng.below(80)}`];
    return {
      files: {},
      prompt: `Write the line "${line}" to the file ${file}.`,
      answer: `The file ${file} says "${line}" now.`,
      changed: { [file]: `${line}\n` },
    };
  },
  (prng) => {
    const [job, code, has_failed] = [name(prng), 2 + prng.below(90), prng.below(2) === 0];
    const log = `logs/${pick(prng, WORDS)}-${prng.below(1_000)}.log`;
    const last = JSON.stringify({ job, code });
    return {
      files: {
        [`jobs/${job}.json`]: JSON.stringify({ job, state: has_failed ? 'failed' : 'passed', log }),
        [log]: `start\n${last}\n`,
      },
      prompt: `Did the job ${job} pass?`,
      answer: has_failed ? `No: ${job} ended with code ${code}.` : `Yes, ${job} passed.`,
      changed: {},
    };
  },
  (prng) => {
    const [called, module, before] = [
      `${pick(prng, WORDS)}_${pick(prng, WORDS)}`,
      name(prng),
      prng.below(40),
    ];
    return {
      files: { [`src/${module}.py`]: `${'#\n'.repeat(before)}def ${called}():\n    pass\n` },
      prompt: `Where is the function ${called} defined?`,
      answer: `${called} is defined in src/${module}.py, line ${before + 1}.`,
      changed: {},
    };
  },
  (prng) => {
    const words = [pick(prng, WORDS), `${pick(prng, WORDS)}s`];
    const counts = words.map(() => 1 + prng.below(500));
    return {
      files: Object.fromEntries(words.map((word, at) => [`${word}.csv`, 'x\n'.repeat(counts[at]!)])),
      prompt: `How many lines have ${words[0]}.csv and ${words[1]}.csv?`,
      answer: `${words[0]}.csv has ${counts[0]} lines, ${words[1]}.csv has ${counts[1]}.`,
      changed: {},
    };
  },
];

export const TASK_KINDS = MAKERS.length;

/** The task of the n-th session: the kinds in turn, with values that depend only on the number. */
export function makeTask(nth: number): SessionTask {
  return MAKERS[nth % TASK_KINDS]!(createPrng(1_000 + nth));
}

export function layOut(task: SessionTask, folder: string): void {
  for (const [path, content] of Object.entries(task.files)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
}

/**
 * The model's answer.
 * @param asked all texts of the user
 * @param results all tool results, in order
 */
export function decideTask(asked: string, results: readonly string[], tools: TaskTools): ScriptedAnswer {
  const call = (...tool_calls: ScriptedToolCall[]): ScriptedAnswer => ({ tool_calls });
  const find = (pattern: RegExp, text = asked): string[] | null => pattern.exec(text)?.slice(1) ?? null;
  const value = (key: string, text: string): string =>
    find(new RegExp(`"${key}":"?([^",}]*)`), text)?.[0] ?? '?';
  const [first = '', second = ''] = results;

  const service = find(/the service ([\w-]+) listen on/);
  if (service !== null) {
    if (results.length === 0) return call(tools.read(`config/${service[0]}.json`));
    return { text: `${service[0]} listens on port ${value('port', first)}.` };
  }
  const folder = find(/owns the folder ([\w-]+)\?/);
  if (folder !== null) {
    if (results.length === 0) return call(tools.read(`owners/${folder[0]}.json`));
    return { text: `${value('owner', first)} owns ${folder[0]}: write to ${value('mail', first)}.` };
  }
  const version = find(/of the package ([\w-]+) to ([\d.]+)\./);
  if (version !== null) {
    const [pack, to] = version;
    const path = `packages/${pack}.json`;
    if (results.length === 0) return call(tools.read(path));
    if (results.length > 1) return { text: `The package ${pack} is at version ${to} now.` };
    return call(tools.edit(path, `"version":"${value('version', first)}"`, `"version":"${to}"`));
  }
  const line = find(/Write the line "([^"]*)" to the file ([\w.-]+)\./);
  if (line !== null) {
    if (results.length === 0) return call(tools.write(line[1]!, line[0]!));
    return { text: `The file ${line[1]} says "${line[0]}" now.` };
  }
  const job = find(/Did the job ([\w-]+) pass/);
  if (job !== null) {
    if (results.length === 0) return call(tools.read(`jobs/${job[0]}.json`));
    if (results.length > 1) return { text: `No: ${job[0]} ended with code ${value('code', second)}.` };
    return value('state', first) === 'failed'
      ? call(tools.shell(`tail -n 1 ${value('log', first)}`))
      : { text: `Yes, ${job[0]} passed.` };
  }
  const called = find(/the function (\w+) defined/);
  if (called !== null) {
    if (results.length === 0) return call(tools.shell(`grep -rn 'def ${called[0]}' src`));
    const [file, at] = find(/(src\/[\w-]+\.py):(\d+):/, first) ?? [];
    return { text: `${called[0]} is defined in ${file}, line ${at}.` };
  }
  const files = find(/lines have ([\w.]+) and ([\w.]+)\?/);
  if (files === null) return { text: 'I have nothing to do.' };
  if (results.length === 0) return call(...files.map((file) => tools.shell(`wc -l < ${file}`)));
  const counts = results.map((result) => result.trim().split('\n').at(-1));
  return { text: `${files[0]} has ${counts[0]} lines, ${files[1]} has ${counts[1]}.` };
}
