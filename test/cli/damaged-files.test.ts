/**
 * `inspect` and `trace` on files that are not databases, are cut off or are damaged: always one clear line and exit
 * status 1.
 */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runGuarded } from '../../src/cli/guard.ts';
import { runInspect } from '../../src/cli/inspect.ts';
import { runTrace } from '../../src/cli/trace.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng } from '../../src/std/prng.ts';
import { openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeTraffic } from '../fixtures/agent-traffic.ts';
import { makeExchange } from '../storage/captured.ts';
import { runCli } from './child.ts';
import { runHere } from './here.ts';

let folder = '';
let whole = '';
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'damaged-'));
  whole = path.join(folder, 'whole.mdb');
  const log = await CaptureLog.open({ path: whole, redact: false });
  const plan = { runs: 20, turns: 8, twins: 0, failures: 0.1, same_answers: false };
  for (const made of makeTraffic(createPrng(5), createPrng, plan)) {
    const { shape, path: target, status, aborted, request, response } = made;
    await log.append([
      makeExchange({
        shape,
        path: target,
        status,
        aborted,
        request_body: Buffer.from(JSON.stringify(request)),
        response_body: Buffer.from(typeof response === 'string' ? response : JSON.stringify(response)),
      }),
    ]);
  }
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Told {
  status: number;
  out: string;
  err: string;
}

async function tell(command: typeof runInspect | typeof runTrace, argv: string[]): Promise<Told> {
  let out = '';
  let err = '';
  const io = {
    out: async (data: string | Uint8Array) => {
      out += Buffer.from(data as Uint8Array).toString();
    },
    err: (text: string) => {
      err += text;
    },
    is_terminal: false,
    has_color: false,
  };
  return { status: await command(argv, io, { said_in: [] }), out, err };
}

/** Expects that inspect and trace fail, each with one line that names the file. */
async function expectRefusal(db: string, named: string = db): Promise<void> {
  for (const command of [runInspect, runTrace]) {
    const { status, err } = await tell(command, ['--db', db]);
    expect(status).toBe(1);
    expect(err).toContain(path.basename(named));
    expect(err.trimEnd().split('\n').length).toBeLessThanOrEqual(err.includes('no capture database') ? 2 : 1);
    expect(err).not.toMatch(/\n {4}at /);
  }
}

const PAGE_BYTES = 4_096;

/**
 * Finds all pages in which a text begins. Free pages keep their former content, so several pages may have the text, and
 * only one of them is in use.
 */
function findPages(file: Buffer, text: Buffer): number[] {
  const pages: number[] = [];
  for (let at = file.indexOf(text); at >= 0; at = file.indexOf(text, at + 1))
    pages.push(Math.floor(at / PAGE_BYTES));
  expect(pages).not.toEqual([]);
  return pages;
}

it('inspect and trace print hostile text without characters that control a terminal', async () => {
  const db = path.join(folder, 'hostile.mdb');
  const log = await CaptureLog.open({ path: db, redact: false });
  const hostile = '\u009b31m \u0085 \u007f \u202e red';
  const body = { model: 'm', messages: [{ role: 'user', content: hostile }] };
  await log.append([
    makeExchange({ run_id: `r ${hostile}`, request_body: Buffer.from(JSON.stringify(body)) }),
  ]);
  while ((await log.indexSome(decodeExchange, 10)) > 0);
  await log.close();
  for (const [command, argv] of [
    [runTrace, ['--db', db]],
    [runInspect, ['--db', db, '--json']],
  ] as const) {
    const { out, status } = await tell(command, [...argv]);
    expect(status).toBe(0);
    expect(out).not.toMatch(/[\u007f-\u009f\u202e]/);
    expect(JSON.stringify(JSON.parse(out))).toContain('red');
  }
});

describe('inspect and trace refuse', () => {
  it('a file that is not a capture database', async () => {
    const text = path.join(folder, 'text.mdb');
    for (const content of ['', 'x', 'no database at all '.repeat(2_000)]) {
      writeFileSync(text, content);
      await expectRefusal(text);
    }
    await expectRefusal(folder);
    await expectRefusal(path.join(folder, 'none.mdb'));
    await expectRefusal(path.join(text, 'inside-a-file.mdb'));
    const closed = path.join(folder, 'closed.mdb');
    copyFileSync(whole, closed);
    chmodSync(closed, 0);
    if (process.getuid?.() !== 0) await expectRefusal(closed);
  });

  it('a file that is cut off anywhere', async () => {
    const cut = path.join(folder, 'cut.mdb');
    const random = createPrng(11);
    const { size } = statSync(whole);
    for (let i = 0; i < 40; i += 1) {
      copyFileSync(whole, cut);
      truncateSync(cut, random.below(size));
      await expectRefusal(cut);
    }
  });

  it('a damaged sealed file beside the live one: of a newer format, empty, a folder, cut off', async () => {
    const db = path.join(folder, 'live', 'capture.mdb');
    mkdirSync(path.dirname(db));
    const log = await CaptureLog.open({ path: db, redact: false, decode: decodeExchange });
    await log.append([makeExchange({ run_id: 'r' })]);
    const { sealed } = await log.rotate();
    await log.append([makeExchange({ run_id: 'r' })]);
    await log.close();
    expect((await tell(runInspect, ['--db', db])).out).toContain('1 run, 2 turns in 2 exchanges');
    const bytes = readFileSync(sealed!);
    chmodSync(sealed!, 0o644);
    truncateSync(sealed!, 5_000);
    await expectRefusal(db, sealed!);
    truncateSync(sealed!, 0);
    await expectRefusal(db, sealed!);
    writeFileSync(sealed!, bytes);
    const env = openCaptureEnv(sealed!, 'write');
    env.root.transactionSync(() => env.meta.putSync('format', Buffer.from('99')));
    await env.root.close();
    await expectRefusal(db, sealed!);
    expect((await tell(runInspect, ['--db', db])).err).toContain('newer version');
    rmSync(sealed!);
    mkdirSync(sealed!);
    await expectRefusal(db, sealed!);
  });

  it('a file with a wiped page, although reading it may end the process', { tags: 'long' }, async () => {
    const wiped = path.join(folder, 'wiped.mdb');
    const bytes = readFileSync(whole);
    const env = openCaptureEnv(whole, 'read');
    const block = env.blocks.get(1)!;
    const facts = env.facts.get(1)!;
    const places = [findPages(bytes, block.subarray(0, 64)), findPages(bytes, facts.subarray(0, 64))];
    await env.root.close();
    const random = createPrng(3);
    places.push([random.below(Math.floor(bytes.length / PAGE_BYTES))]);
    let refused = 0;
    for (const [i, pages] of places.entries()) {
      const copy = Buffer.from(bytes);
      for (const page of pages) copy.fill(i % 2 === 0 ? 0 : 255, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
      writeFileSync(wiped, copy);
      const env = { DATA_DIR: folder };
      const commands = [
        ['inspect', '--json'],
        ['trace'],
        ['backup', '--out', path.join(folder, `copy-${i}`)],
      ];
      const ended = await Promise.all(
        commands.map(([name, ...more]) => runCli([name!, '--db', wiped, ...more], env)),
      );
      for (const { code, stderr } of ended) {
        // The page may be free, or contain data that this command does not read.
        expect([0, 1]).toContain(code);
        refused += code ?? 0;
        expect(stderr.split('\n')).toHaveLength(code === 1 ? 2 : 1);
        if (code === 1) expect(stderr).toContain('wiped.mdb');
      }
    }
    expect(refused).toBeGreaterThanOrEqual(3);
  });
});

describe('a guarded command', () => {
  const guard = async (script: string): Promise<Told> => {
    const entry = path.join(folder, 'entry.mjs');
    writeFileSync(entry, script);
    let err = '';
    const io = {
      out: async () => {},
      err: (text: string) => (err += text),
      is_terminal: false,
      has_color: false,
    };
    return { status: await runGuarded(['inspect', '--x'], io as never, 'the file', entry), out: '', err };
  };

  it.each(['SIGSEGV', 'SIGBUS', 'SIGABRT'])('that ends by %s fails with one line', async (signal) => {
    const noise =
      'internal error, index points to a 00 page!?\\n../x/liblmdb/mdb.c:8079: Assertion failed\\n';
    const { status, err } = await guard(
      `process.stderr.write('${noise}'); setTimeout(() => process.kill(process.pid, '${signal}'), 50); setInterval(() => {}, 1000);`,
    );
    expect(status).toBe(1);
    expect(err).toBe(
      `understudy: the file: damaged: the process that read it ended with ${signal}. Restore it from a backup (understudy restore)\n`,
    );
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGKILL'])(
    'that another process ends by %s reports no damaged file',
    async (signal) => {
      const { status, err } = await guard(
        `process.kill(process.pid, '${signal}'); setInterval(() => {}, 1000);`,
      );
      expect(status).toBe(1);
      expect(err).toBe(
        signal === 'SIGKILL'
          ? 'understudy: the file: the process that read it was killed, perhaps because memory ran out\n'
          : `understudy: the file: the process that read it was ended by ${signal}\n`,
      );
    },
  );

  it('gets its arguments, and its messages and exit status are those of the command line', async () => {
    const { status, err } = await guard(
      `process.stderr.write(process.argv.slice(2).join(' ') + '\\ninternal affairs\\n\\r\\x1b[Kdone 5 %'); process.exitCode = 78;`,
    );
    expect(status).toBe(78);
    expect(err).toBe('--in-process inspect --x\ninternal affairs\n\r\u001b[Kdone 5 %');
  });
});

describe('inspect and trace skip what is damaged, say how much that is, and exit with 1', () => {
  const keys = [null, randomBytes(32)];
  for (const data_key of keys)
    it(`${data_key === null ? 'without' : 'under'} a data key`, async () => {
      const home = mkdtempSync(path.join(folder, 'one-'));
      const db = path.join(home, 'capture.mdb');
      const log = await CaptureLog.open({ path: db, redact: false, data_key });
      const answer = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'done' }] };
      const response_body = Buffer.from(JSON.stringify({ ...answer, stop_reason: 'end_turn' }));
      for (let i = 1; i <= 9; i++) {
        const request_body = Buffer.from(
          JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `task ${i}` }] }),
        );
        await log.append([makeExchange({ run_id: `run-${i}`, request_body, response_body })]);
      }
      while ((await log.indexSome(decodeExchange, 1_000)) > 0);
      await log.close();
      const env = openCaptureEnv(db, 'write', data_key);
      const keys = [...env.blocks.getKeys()];
      const spoilt = keys.findLast((key) => key <= 4)!;
      const next = keys.find((key) => key > 4) ?? 10;
      const block = Buffer.from(env.blocks.get(spoilt)!);
      block.fill(0x5a, 12);
      env.root.transactionSync(() => env.blocks.putSync(spoilt, block));
      await env.root.close();
      const lost = Array.from({ length: next - spoilt }, (_, i) => `run-${spoilt + i}`);

      const keyFile = path.join(home, 'key');
      if (data_key !== null) writeFileSync(keyFile, data_key, { mode: 0o600 });
      const around = { DATA_DIR: home, ...(data_key === null ? {} : { DATA_KEY_FILE: keyFile }) };
      const shown = await runHere(['inspect', '--json'], around);
      expect(shown.stderr).toMatch(new RegExp(`capture.mdb: ${lost.length} exchanges? cannot be read`));
      expect(shown.code).toBe(1);
      const rest = Array.from({ length: 9 }, (_, i) => `run-${i + 1}`).filter((id) => !lost.includes(id));
      expect(rest.length).toBeGreaterThan(0);
      const runs = (JSON.parse(shown.stdout) as { runs: { run_id: string }[] }).runs.map((run) => run.run_id);
      expect(runs).toEqual(expect.arrayContaining(rest));

      const traced = await runHere(['trace'], around);
      expect(traced.stderr).toContain('cannot be read');
      expect(traced.code).toBe(1);
      const lines = traced.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      for (const line of lines) {
        expect(line.turns.length).toBe(lost.includes(line.run_id) ? 0 : 1);
        if (lost.includes(line.run_id)) expect(line.provenance.complete).toBe(false);
      }
      expect(lines.map((line) => line.run_id)).toEqual(expect.arrayContaining(rest));

      // An exchange that is requested by its number is judged alone.
      expect((await runHere(['inspect', '--exchange', `${spoilt}`], around)).stderr).toContain(
        `exchange ${spoilt}`,
      );
      expect((await runHere(['inspect', '--exchange', rest.at(-1)!.slice(4)], around)).code).toBe(0);
    });
});
