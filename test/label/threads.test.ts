/**
 * One process with several threads and several copies of the package: a run has one sequence of numbers, and a request
 * has one label.
 */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { headerOf, isLabelLine, type Recorder, startRecorder } from './recorder.ts';
import { buildShim, findNodes } from './shim-build.ts';

const shim = buildShim();
const copy = buildShim();
afterAll(() => {
  shim[Symbol.dispose]();
  copy[Symbol.dispose]();
});

let recorder: Recorder;
beforeEach(async () => {
  recorder = await startRecorder();
});
afterEach(() => recorder.close());

/** Runs the text of a module. @returns its output */
async function run(program: string, flags: string[], code: string, env: Record<string, string> = {}) {
  const { stdout, stderr } = await promisify(execFile)(
    program,
    [...flags, '--input-type=module', '-e', code],
    {
      env: {
        PATH: process.env.PATH,
        NODE_NO_WARNINGS: '1',
        URL: `http://127.0.0.1:${recorder.port}/v1/messages`,
        LABEL: join(shim.folder, 'label.js'),
        COPY: join(copy.folder, 'label.js'),
        ...env,
      },
    },
  );
  return { stdout: stdout.trim(), stderr };
}

const labels = () =>
  recorder.requests.map((request) => {
    expect(request.lines.filter(isLabelLine).length).toBeLessThanOrEqual(2);
    return [headerOf(request, 'x-svc-run'), headerOf(request, 'x-svc-seq')];
  });
const inOrder = () => labels().sort(([, a], [, b]) => Number(a) - Number(b));
const upTo = (name: string, count: number) =>
  Array.from({ length: count }, (_, at) => [name, String(at + 1)]);

describe.each(findNodes())('labels on Node %s', (_version, program) => {
  const auto = ['--import', join(shim.folder, 'auto.js')];

  it('continue in worker threads of a process whose run the environment names', async () => {
    const code = `
      import { Worker } from 'node:worker_threads';
      import { once } from 'node:events';
      const ask = async () => { for (let n = 0; n < 10; n++) await (await fetch(process.env.URL, { method: 'POST' })).text(); };
      const workers = [1, 2, 3].map(() => new Worker(\`(\${ask})()\`, { eval: true }));
      await Promise.all([ask(), ...workers.map((worker) => once(worker, 'exit'))]);`;
    await run(program, auto, code, { SVC_RUN: 'threads' });
    expect(inOrder()).toEqual(upTo('threads', 40));
  });

  it('continue in a scope of the same name in a worker thread', async () => {
    const code = `
      import { Worker } from 'node:worker_threads';
      import { once } from 'node:events';
      const { install, runScope } = await import(process.env.LABEL);
      install();
      const ask = async () => { for (let n = 0; n < 10; n++) await (await fetch(process.env.URL)).text(); };
      const inWorker = \`import(process.env.LABEL).then(({ install, runScope }) => { install(); return runScope('shared', \${ask}); })\`;
      const workers = [1, 2].map(() => new Worker(inWorker, { eval: true }));
      await Promise.all([runScope('shared', ask), ...workers.map((worker) => once(worker, 'exit'))]);`;
    await run(program, [], code);
    expect(inOrder()).toEqual(upTo('shared', 30));
  });

  it('are shared by two copies of the package, each installed twice', async () => {
    const code = `
      import http from 'node:http';
      import { once } from 'node:events';
      const one = await import(process.env.LABEL);
      const two = await import(process.env.COPY);
      const get = async () => { const [response] = await once(http.get(process.env.URL), 'response'); await once(response.resume(), 'end'); };
      console.log(two.installedTransports().length);
      for (const label of [one, two, one, two]) label.install();
      console.log(two.installedTransports().join());
      for (const label of [one, two]) await label.runScope('copies', async () => { await (await fetch(process.env.URL)).text(); await get(); });
      await get();`;
    const { stdout } = await run(program, [], code);
    expect(stdout).toBe('0\nfetch,undici,node:http,node:https');
    expect(labels()).toEqual([...upTo('copies', 4), [null, null]]);
  });

  it('belong to a scope in the code rather than to the run that the environment names', async () => {
    const code = `
      const { runScope } = await import(process.env.LABEL);
      const ask = async () => (await fetch(process.env.URL)).text();
      await ask();
      await runScope('its own', ask);
      await ask();`;
    await run(program, auto, code, { SVC_RUN: 'named' });
    expect(labels()).toEqual([
      ['named', '1'],
      ['its own', '1'],
      ['named', '2'],
    ]);
  });

  it('are not sent with an invalid name in the environment, but the agent runs', async () => {
    const code = `console.log((await fetch(process.env.URL)).status);`;
    const { stdout, stderr } = await run(program, auto, code, { SVC_RUN: ' ', NODE_NO_WARNINGS: '' });
    expect(stdout).toBe('200');
    expect(stderr).toContain('nothing is labelled by SVC_RUN');
    expect(labels()).toEqual([[null, null]]);
  });
});
