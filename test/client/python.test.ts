/**
 * The Python client with the system's python3: its own tests against the real service, and agents whose service is
 * killed under them. Without a python3 that is new enough the tests are skipped, and each says why.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { OPERATIONS } from '../../src/client/operations.ts';
import { CliChild } from '../cli/child.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { startProvider } from './model-provider.ts';

const FOLDER = fileURLToPath(new URL('../../clients/python', import.meta.url));
/** None of the developer's own settings, and no files beside the sources. */
const PLAIN = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  PYTHONDONTWRITEBYTECODE: '1',
  PYTHONPATH: FOLDER,
};

const MISSING = findMissing();

/** @returns why Python's tests cannot run; null: they can */
function findMissing(): string | null {
  const asked = spawnSync('python3', ['-c', 'import sys; print(sys.version_info >= (3, 9))'], {
    encoding: 'utf8',
  });
  if (asked.error !== undefined || asked.status !== 0) return 'there is no python3';
  return asked.stdout.trim() === 'True' ? null : 'python3 is older than 3.9';
}

const child = new ApiChild({ VECTOR_STORE_URL: 'embedded:', AUTH_DB_CONN_URL: 'embedded:' });
beforeAll(async () => {
  if (MISSING === null) await child.start();
});
afterAll(() => child[Symbol.asyncDispose]());

/** Runs a program to its end. */
async function runPython(args: string[], env: Record<string, string> = {}) {
  const python = spawn('python3', args, {
    cwd: FOLDER,
    env: { ...PLAIN, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void python.kill('SIGKILL'));
  let output = '';
  let errors = '';
  python.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  python.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const [code] = await once(python, 'close');
  return { code: code as number | null, output, errors };
}

describe.skipIf(MISSING !== null)(`the Python client${MISSING === null ? '' : ` (${MISSING})`}`, () => {
  const modules = ['test_cases', 'test_labels', 'test_runs', 'test_async', 'test_faults', 'test_service'];
  for (const module of modules)
    it(`passes ${module}`, { tags: 'long' }, async () => {
      const env = { UNDERSTUDY_TEST_URL: child.url, UNDERSTUDY_TEST_KEY: CHILD_KEY };
      const which = ['discover', '-v', '-s', 'tests', '-p', `${module}.py`];
      const args = ['-W', 'error::ResourceWarning', '-m', 'unittest', ...which];
      const { code, errors } = await runPython(args, env);
      expect(errors).toMatch(/^Ran [1-9]\d* tests? in /m);
      // The run's output names what is not installed.
      const reasons = [...errors.matchAll(/ \.\.\. skipped '(.*)'$/gm)].map(([, reason]) => reason);
      for (const reason of new Set(reasons)) console.info(`${module}: some tests are skipped, ${reason}`);
      expect(code, errors).toBe(0);
    });

  it('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync(join(FOLDER, '../../package.json'), 'utf8')) as {
      version: string;
    };
    expect(readFileSync(join(FOLDER, 'understudy_gateway/_version.py'), 'utf8')).toContain(
      `\n__version__ = "${version}"\n`,
    );
    expect(readFileSync(join(FOLDER, 'pyproject.toml'), 'utf8')).toContain(`\nversion = "${version}"\n`);
  });

  it('has every operation of the TypeScript client', async () => {
    const script =
      'import json; from understudy_gateway._operations import OPERATIONS; print(json.dumps(OPERATIONS))';
    const operations = JSON.parse((await runPython(['-c', script])).output) as Record<string, unknown>;
    const expected = Object.entries(OPERATIONS).map(([name, { method, path, isRepeatable }]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      [method, path, isRepeatable],
    ]);
    expect(operations).toMatchObject(Object.fromEntries(expected));
  });

  it('does not change an agent’s result if the service is killed during its run', {
    tags: 'long',
  }, async () => {
    await using doomed = new ApiChild();
    await doomed.start();
    const script = `
import sys
from understudy_gateway import Understudy
u = Understudy("${CHILD_KEY}", sys.argv[1]) if len(sys.argv) > 1 else None
def work(run):
    total = 0
    for index in range(40):
        total += index * index
        if run is not None:
            run.step(action="square", action_input=index, observation=total)
            run.intervention()
        if index == 20 and run is not None:
            assert u.flush(60)
            print("half", flush=True)
            sys.stdin.readline()
    return total
if u is None:
    print(work(None))
else:
    with u.run(task="squares", run_id="killed") as run:
        print(work(run))
`;
    const alone = await runPython(['-c', script]);
    const python = spawn('python3', ['-c', script, doomed.url], { cwd: FOLDER, env: PLAIN, stdio: 'pipe' });
    onTestFinished(() => void python.kill('SIGKILL'));
    let output = '';
    let errors = '';
    python.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    python.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    while (!output.includes('half\n') && python.exitCode === null) await once(python.stdout, 'data');
    await doomed.kill();
    python.stdin.end('go on\n');
    const [code] = await once(python, 'close');
    expect({ code, output, errors }).toEqual({ code: 0, output: `half\n${alone.output}`, errors: '' });
  });

  it('labels requests, so that the gateway captures simultaneous ones as one run', {
    tags: 'long',
  }, async () => {
    const dir = mkdtempSync(join(tmpdir(), 'understudy-python-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    await using provider = await startProvider();
    await using gateway = new CliChild(['gateway', '--port', '0', '--db', join(dir, 'capture.mdb')], {
      env: { DATA_DIR: dir, GW_UPSTREAM_BASE: provider.url },
      cwd: dir,
    });
    const [, address = ''] = await gateway.waitForOutput(/Gateway +(http:\/\/\S+) /);
    const script = `
import concurrent.futures, contextvars, json, sys, urllib.request
import understudy_gateway
understudy_gateway.install_labels()
def ask(text):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    head = {"content-type": "application/json", "x-api-key": "k"}
    request = urllib.request.Request(sys.argv[1] + "/v1/messages", json.dumps(body).encode(), head)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"][0]["text"]
with understudy_gateway.run_scope("of-python"), concurrent.futures.ThreadPoolExecutor(4) as pool:
    contexts = [contextvars.copy_context() for _ in range(8)]
    print(set(pool.map(lambda context: context.run(ask, "hello"), contexts)))
`;
    const { code, output, errors } = await runPython(['-c', script, address]);
    expect({ code, output, errors }).toEqual({ code: 0, output: "{'hello'}\n", errors: '' });
    expect(provider.heads.filter((names) => names.some((name) => name.startsWith('x-svc-')))).toEqual([]);
    await fetch(`${address}/__gw/flush`, { method: 'POST' });
    gateway.process.kill('SIGTERM');
    await gateway.ended;
    const traced = new CliChild(['trace', '--db', join(dir, 'capture.mdb'), '--run', 'of-python'], {
      env: { DATA_DIR: dir },
      cwd: dir,
    });
    const ended = await traced.ended;
    const { provenance } = JSON.parse(ended.stdout);
    expect(provenance).toMatchObject({ exchanges: 8, first_seq: 1, last_seq: 8, gaps: [], complete: true });
  });
});
