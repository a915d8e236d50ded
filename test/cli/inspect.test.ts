/** `understudy inspect` from a user's view: tables, a run as a conversation, JSON, raw bytes, and wrong use. */
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { type InspectSurroundings, runInspect } from '../../src/cli/inspect.ts';
import { UsageError } from '../../src/cli/io.ts';
import { makeHarmless, measureWidth } from '../../src/cli/terminal-text.ts';
import { addToolLoop, MadeSource } from '../captures/made-run.ts';

const db = path.join(tmpdir(), `inspect-${process.pid}.mdb`);

interface Told {
  status: number;
  out: string;
  bytes: Buffer;
  err: string;
}

/** Runs the command on a database made up by `fill`. */
async function inspect(
  argv: string[],
  fill: (source: MadeSource) => void = () => {},
  terminal: { columns?: number; has_color?: boolean } = {},
): Promise<Told> {
  const source = new MadeSource();
  fill(source);
  const chunks: Buffer[] = [];
  let err = '';
  let closed = false;
  const surroundings: InspectSurroundings = {
    default_db: db,
    said_in: [],
    ...(argv.includes('--db')
      ? {}
      : {
          open: async () => ({
            source,
            close: async () => {
              closed = true;
            },
          }),
        }),
    ...(terminal.columns === undefined ? {} : { columns: terminal.columns }),
  };
  const io = {
    out: async (data: string | Uint8Array) => void chunks.push(Buffer.from(data as Uint8Array)),
    err: (text: string) => {
      err += text;
    },
    is_terminal: terminal.columns !== undefined,
    has_color: terminal.has_color ?? false,
  };
  const status = await runInspect(argv, io, surroundings);
  if (status === 0 && !argv.includes('--help')) expect(closed).toBe(true);
  const bytes = Buffer.concat(chunks);
  return { status, out: bytes.toString('utf8'), bytes, err };
}

const loop = (source: MadeSource): void => addToolLoop(source, 'mend-1', true);

/** Text that could attack a terminal: CSI, OSC, 8-bit CSI, overrides of the direction, a lone surrogate. */
const HOSTILE = '\u001b[2J\u001b]0;owned\u0007\u009b31m\r\u202egnp.exe\ufeff';

describe('a query', () => {
  const fill = (source: MadeSource): void => {
    loop(source);
    source.add({ run_id: 'cut', seq: 4, aborted: true, status: 500, request: {}, response: '' });
    source.add({ shape: null, path: '/v1/models' });
  };

  it('lists the matching runs in the order that it names', async () => {
    const { status, out } = await inspect(['sort:turns'], fill);
    expect(status).toBe(0);
    const lines = out.split('\n');
    expect(lines[0]).toMatch(/^RUN +STATUS +AGENT +MODEL +STARTED +TOOK +TOKENS +COST +ERR +TASK$/);
    expect(lines[1]).toMatch(/^mend-1 +ok +- +claude-x-20260101, claude-x .* 1 +Mend the parser\.$/);
    expect(lines[2]).toMatch(/^cut +error /);
    expect(out).toMatch(/\n2 runs, \$\d/);
    for (const [words, found] of [
      [['status:error'], ['cut']],
      [['-status:error'], ['mend-1']],
      [['tool:read_file', 'parser'], ['mend-1']],
      [['"the parser" -is:golden'], []],
      [['turns:>0', '--golden'], ['mend-1']],
      [['sort:started', '--limit', '1'], ['cut']],
      [['has:error', '--since', '2026-01-02T03:04:05.800Z'], ['cut']],
    ] as const) {
      const { out: json } = await inspect([...words, '--json'], fill);
      expect(
        JSON.parse(json).runs.map(({ run_id }: { run_id: string }) => run_id),
        words.join(' '),
      ).toEqual(found);
    }
    expect((await inspect(['tool:none'], fill)).out).toBe('No such run.\n');
  });

  it('with a mistake is refused, and the error shows the place', async () => {
    const wrong = await inspect(['cost:>1 modle:x']).catch((thrown) => thrown);
    expect(wrong).toBeInstanceOf(UsageError);
    expect(wrong.message).toContain('did you mean "model"?');
    expect(wrong.message).toContain('\n  cost:>1 modle:x\n          ^^^^^');
    await expect(inspect(['status:ok', '--run', 'x'])).rejects.toThrow('status:ok belongs to no option');
  });
});

describe('an export', () => {
  /** Counts the records that are examined and the bodies that are read. */
  class CountedSource extends MadeSource {
    looked = 0;
    read = 0;

    override *summaries({ run_id, from_id = 1 }: { run_id?: string; from_id?: number } = {}) {
      for (const record of super.summaries({ from_id })) {
        this.looked += 1;
        if (run_id === undefined || record.run_id === run_id) yield record;
      }
    }

    override copy(id: number) {
      this.read += 1;
      return super.copy(id);
    }
  }

  async function countReads(format: string, runs: number): Promise<{ looked: number; read: number }> {
    const source = new CountedSource();
    for (let at = 0; at < runs; at++) addToolLoop(source, `mend-${at}`, true);
    let out = '';
    const io = {
      out: async (data: string | Uint8Array) => {
        out += Buffer.from(data as Uint8Array).toString();
      },
      err: () => {},
      is_terminal: false,
      has_color: false,
    };
    const open = async () => ({ source, close: async () => {} });
    expect(await runInspect(['--export', format], io, { default_db: db, said_in: [], open })).toBe(0);
    for (let at = 0; at < runs; at++) expect(out).toContain(`mend-${at}`);
    return source;
  }

  it.each(['csv', 'jsonl', 'otlp'])('reads each run of a long list only once: %s', async (format) => {
    const [few, many] = [await countReads(format, 10), await countReads(format, 40)];
    expect(many.looked).toBe(4 * few.looked);
    expect(many.read).toBe(4 * few.read);
  });
});

describe('the table of runs', () => {
  it('has one line for each run, and a sum', async () => {
    const { status, out } = await inspect([], (source) => {
      loop(source);
      source.add({ run_id: 'cut', seq: 4, aborted: true, request: {}, response: '' });
      source.add({ shape: null, path: '/v1/models' });
    });
    expect(status).toBe(0);
    const lines = out.split('\n');
    expect(lines[0]).toMatch(/^RUN +TURNS +MODEL +STARTED +TOOK +IN +OUT +ERR +GAPS +GOLDEN$/);
    expect(lines[1]).toMatch(
      /^mend-1 +4 +claude-x-20260101, claude-x +2026-01-02 03:04:01 +4\.5 s +300 +60 +1 +0 +yes$/,
    );
    expect(lines[2]).toMatch(/^cut +1 .* - +- +1 +3 +no: seq gap, aborted, failed call$/);
    expect(out).toContain('2 runs, 5 turns in 5 exchanges, 1 golden.\n');
    expect(out).toContain('1 exchange without a run (0 turns).\n');
    expect(out).not.toContain('\u001b');
  });

  it('says so when it is empty', async () => {
    expect(await inspect([])).toMatchObject({
      status: 0,
      out: 'The database has no exchange yet.\n',
      err: '',
    });
  });

  it('cuts a long name, and keeps it whole in JSON', async () => {
    const long = `run-${'long'.repeat(1_250)}`;
    const fill = (source: MadeSource): void => {
      loop(source);
      source.add({ run_id: long, request: {}, response: { model: 'm'.repeat(5_000) } });
      source.add({ run_id: `wide\u001b${'運'.repeat(2_000)}`, request: {}, response: {} });
      source.add({ run_id: 'x'.repeat(128), request: {}, response: {} });
    };
    const { out } = await inspect([], fill);
    const lines = out.split('\n').slice(0, 5);
    for (const line of lines) expect(measureWidth(line)).toBeLessThan(450);
    expect(lines.find((line) => line.startsWith('run-'))).toContain(`${long.slice(0, 127)}…      1 `);
    expect(lines.find((line) => line.startsWith('wide'))).toMatch(/^wide\\x1b運{59}… {7}1 /);
    expect(lines.find((line) => line.startsWith('x'))).toContain(`${'x'.repeat(128)}      1 `);
    const { runs } = JSON.parse((await inspect(['--json'], fill)).out);
    expect(runs.map(({ run_id }: { run_id: string }) => run_id)).toContain(long);
  });

  it.each([40, 60, 80, 120])('fits a terminal of %i columns', async (columns) => {
    const { out } = await inspect(
      [],
      (source) => {
        addToolLoop(source, 'a-rather-long-run-name-of-the-kind-that-test-suites-make-up-0001', true);
        addToolLoop(source, '運行运行运行运行运行运行运行运行运行运行', false);
      },
      { columns },
    );
    for (const line of out.split('\n').slice(0, 3)) expect(measureWidth(line)).toBeLessThanOrEqual(columns);
    expect(out).toContain('GOLDEN');
  });

  it('has colours only on a terminal that shows colours', async () => {
    expect((await inspect([], loop, { columns: 120, has_color: true })).out).toContain(
      '\u001b[32myes\u001b[39m',
    );
    expect((await inspect([], loop, { columns: 120 })).out).not.toContain('\u001b');
  });

  it('shows the latest runs on a terminal, and all when asked', async () => {
    const fill = (source: MadeSource): void => {
      for (let i = 1; i <= 230; i += 1)
        source.add({
          run_id: `run-${i}`,
          seq: 1,
          request: {},
          response: {},
          status: i % 2 === 0 ? 500 : 200,
        });
    };
    const shown = async (argv: string[], columns?: number): Promise<string[]> => {
      const { out } = await inspect(argv, fill, columns === undefined ? {} : { columns });
      return [...out.matchAll(/^run-\d+/gm)].map(([id]) => id);
    };
    const onTerminal = await shown([], 100);
    expect([onTerminal.length, onTerminal[0], onTerminal.at(-1)]).toEqual([200, 'run-31', 'run-230']);
    expect((await inspect([], fill, { columns: 100 })).out).toContain(
      '30 earlier runs: --limit N shows more',
    );
    expect(await shown([])).toHaveLength(230);
    expect(await shown(['--limit', '0'], 100)).toHaveLength(230);
    expect(await shown(['--limit', '2'])).toEqual(['run-229', 'run-230']);
    expect(JSON.parse((await inspect(['--limit', '2', '--json'], fill)).out)).toMatchObject({
      left_out_runs: 228,
    });
    // Each run takes 1.5 s, and one begins each second from 03:04:01 on.
    expect(await shown(['--since', '2026-01-02T03:07:50Z'])).toEqual(['run-229', 'run-230']);
    expect(await shown(['--golden'])).toEqual([]);
    expect(await shown(['--not-golden', '--limit', '1'])).toEqual(['run-230']);
    expect((await inspect(['--golden'], fill)).out).toBe('No such run.\n');
    expect((await inspect(['--golden'], loop)).out).toContain('mend-1');
    expect((await inspect(['--not-golden'], loop)).out).toBe('No such run.\n');
    expect((await inspect(['--since', '30s'], loop)).out).toBe('No such run.\n');
  });

  it('has durations and sizes in readable units', async () => {
    const { out } = await inspect([], (source) => {
      for (const seq of [1, 2]) {
        const usage = { input_tokens: 6_200_000, output_tokens: 12_345 };
        source.add({ run_id: 'long', seq, request: {}, response: { stop_reason: 'end_turn', usage } });
      }
      source.records[1]!.started_at = '2026-01-02T05:10:00.000Z';
    });
    expect(out).toMatch(/ 2 h 6 min +12\.40M +24\.7k /);
  });

  it('is one JSON document with --json', async () => {
    const { out } = await inspect(['--json'], loop);
    expect(JSON.parse(out)).toMatchObject({
      db,
      runs: [{ run_id: 'mend-1', exchanges: 4, golden: true, input_tokens: 300 }],
      without_run: null,
      uncounted_exchanges: 0,
      not_indexed: 0,
    });
  });
});

describe('--run', () => {
  it('shows a run as its conversation', async () => {
    const { status, out } = await inspect(['--run', 'mend-1'], loop);
    expect(status).toBe(0);
    expect(out).toBe(`run      mend-1
golden   yes
turns    4 in 4 exchanges, 1 error, 0 aborted
model    claude-x-20260101, claude-x (anthropic)
time     2026-01-02T03:04:01.000Z to 2026-01-02T03:04:05.500Z (4.5 s)
tokens   in 300 out 60, cache 21 read 9 written
seq      1 to 4
note     baseline

#1  seq 1  +0 ms  200  claude-x-20260101  took 1.5 s (first byte 120 ms)  in 100 out 20, cache 7 read 3 written
  system    You mend code.
  user      Mend the parser.
  assistant I read it first.
  call      read_file {"path":"parser.ts"} [toolu_1]
  stop      tool_use

#2  seq 2  +1.0 s  529  claude-x  took 1.5 s (first byte 120 ms)  in - out -
  result    export const x = 1; [toolu_1]
  error     overloaded_error: Overloaded

#3  seq 3  +2.0 s  200  claude-x-20260101  took 1.5 s (first byte 120 ms)  in 100 out 20, cache 7 read 3 written
            the same request as before
  call      read_file {"path":"missing.ts"} [toolu_2]
  stop      tool_use

#4  seq 4  +3.0 s  200  claude-x-20260101  took 1.5 s (first byte 120 ms)  in 100 out 20, cache 7 read 3 written
  result    no such file [toolu_2]
  assistant Done: one line.
  stop      end_turn
`);
  });

  it('says what is missing and why the run is not golden', async () => {
    const { out } = await inspect(['--run', 'mend-1'], (source) => {
      loop(source);
      source.records.splice(1, 2);
    });
    expect(out).toContain(
      'golden   no\n         - x-svc-seq 2 to 3 missing\n           send every call of a run through the gateway',
    );
    expect(out).toContain('\n-- seq 2 to 3 missing --\n#4  seq 4');
    expect(out).toContain('does not continue the previous turn');
  });

  it('separates the conversations of a run, and shows which turn continues which', async () => {
    const ask = (
      source: MadeSource,
      seq: number,
      system: string,
      messages: object[],
      answer: string,
    ): void => {
      const content = [{ type: 'text', text: answer }];
      const response = { type: 'message', stop_reason: 'end_turn', content };
      source.add({ run_id: 'r', seq, request: { system, messages }, response });
    };
    const task = { role: 'user', content: 'Mend it.' };
    const said = (text: string) => ({ role: 'assistant', content: text });
    const { out } = await inspect(['--run', 'r'], (source) => {
      ask(source, 1, 'You mend.', [task], 'I ask a helper.');
      ask(source, 2, 'You help.', [task], 'A report.');
      ask(
        source,
        3,
        'You mend.',
        [task, said('I ask a helper.'), { role: 'user', content: 'A report.' }],
        'Done.',
      );
      const lost = [task, said('I ask a helper.'), task, said('Never seen.'), task];
      ask(source, 4, 'You mend.', lost, 'Done again.');
    });
    expect(out).toMatch(
      /#2 .*\n +conversation 2 begins: a sub-agent, or a side call\n +system +You help\.\n +user +Mend it\./,
    );
    expect(out).toMatch(/#3 .*\n +continues #1\n/);
    expect(out).toMatch(/#4 .*\n +does not continue the previous turn\n/);
  });

  it('marks turns of a student and turns that broke off, and lists long arguments', async () => {
    const input = { path: 'a.ts', text: 'first line\nsecond line', note: 'x'.repeat(100) };
    const { out } = await inspect(['--run', 'r'], (source) => {
      const content = [{ type: 'tool_use', id: 'toolu_1', name: 'write_file', input }];
      source.add({ run_id: 'r', seq: 1, request: {}, response: { stop_reason: 'tool_use', content } });
      source.add({ run_id: 'r', seq: 2, request: {}, response: { type: 'error', error: { message: 'x' } } });
      source.records[0]!.served_by = 'student';
    });
    expect(out).toContain('  by the student  ');
    expect(out).toContain(', 1 served by the student\n');
    expect(out).toContain('  200  broke off  ');
    expect(out).toContain('write_file \n              path: a.ts\n              text: first line\n');
    expect(out).toContain('                second line\n              note: xxx');
  });

  it.each([40, 72])(
    'wraps to a terminal of %i columns, also with colours and wide characters',
    async (columns) => {
      const text = `${'a word and 漢字 '.repeat(30)}${'x'.repeat(200)} 🎉${'運'.repeat(90)}`;
      const fill = (source: MadeSource): void => {
        const messages = [{ role: 'user', content: text }];
        const content = [
          { type: 'thinking', thinking: text },
          { type: 'text', text },
        ];
        source.add({ run_id: 'r', request: { system: text, messages }, response: { content } });
      };
      const { out } = await inspect(['--run', 'r', '--full'], fill, { columns, has_color: true });
      for (const line of out.replaceAll(/\u001b\[\d+m/g, '').split('\n'))
        expect(measureWidth(line)).toBeLessThanOrEqual(columns);
      const words = out.replaceAll(/\u001b\[\d+m|\s/g, '');
      expect(words.split(text.replaceAll(/\s/g, '')).length - 1).toBe(4);
    },
  );

  it('shortens long texts, except with --full', async () => {
    const text = 'word '.repeat(2000);
    const fill = (source: MadeSource): void => {
      source.add({ run_id: 'r', request: { messages: [{ role: 'user', content: text }] }, response: '{}' });
    };
    const { out } = await inspect(['--run', 'r'], fill);
    expect(out.length).toBeLessThan(3000);
    expect(out).toContain('(8,799 more characters: --full)');
    expect((await inspect(['--run', 'r', '--full'], fill)).out).toContain(text.trim());
  });

  it('is one JSON document with --json', async () => {
    const document = JSON.parse((await inspect(['--run', 'mend-1', '--json'], loop)).out);
    expect(document.run).toMatchObject({ run_id: 'mend-1', golden: true });
    expect(document.steps).toHaveLength(4);
    expect(document.steps[1]).toMatchObject({
      exchange: { id: 2, status: 529 },
      link: 'continues',
      answer: { error: 'overloaded_error: Overloaded' },
      problem: '',
    });
  });
});

describe('--exchange', () => {
  it('prints the exact record with --json', async () => {
    let record: unknown;
    const { out } = await inspect(['--exchange', '2', '--json'], (source) => {
      loop(source);
      record = source.records[1];
    });
    expect(JSON.parse(out)).toEqual(record);
  });

  it('prints a readable form', async () => {
    const { out } = await inspect(['--exchange', '1'], loop);
    expect(out).toMatch(/^#1 {2}seq 1 {2}POST \/v1\/messages {2}200/);
    expect(out).toContain('\nrequest headers\n  content-type  application/json\n');
    expect(out).toContain('--exchange 1 --raw request');
  });

  it('says why a body could not be read', async () => {
    const { out } = await inspect(['--exchange', '1'], (source) => {
      source.add({ request: '{"messages":', response: '{}' });
    });
    expect(out).toContain('unread    request: not JSON');
  });

  it('writes only the stored bytes with --raw', async () => {
    const body = Buffer.from(Array.from({ length: 512 }, (_, i) => i % 256));
    const fill = (source: MadeSource): void => void source.add({ shape: null, request: '', response: body });
    const unread = (source: MadeSource): void => {
      fill(source);
      source.exchange = () => {
        throw new Error('only the body is wanted');
      };
    };
    expect((await inspect(['--exchange', '1', '--raw', 'response'], unread)).bytes).toEqual(body);
    expect((await inspect(['--exchange', '1', '--raw', 'request'], fill)).bytes).toHaveLength(0);
  });
});

describe('hostile text in captures', () => {
  it('does not control a terminal', async () => {
    const fill = (source: MadeSource): void => {
      source.add({
        run_id: `run${HOSTILE}`,
        note: HOSTILE,
        path: `/v1/${HOSTILE}`,
        request: {
          system: HOSTILE,
          messages: [
            { role: 'user', content: HOSTILE },
            {
              role: 'assistant',
              content: [{ type: 'tool_use', id: HOSTILE, name: HOSTILE, input: { a: HOSTILE } }],
            },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: HOSTILE, content: HOSTILE }] },
            { role: 'user', content: [{ type: HOSTILE, [HOSTILE]: HOSTILE }] },
          ],
        },
        response: {
          model: HOSTILE,
          stop_reason: HOSTILE,
          content: [{ type: 'thinking', thinking: HOSTILE }],
        },
      });
      source.add({
        run_id: `run${HOSTILE}`,
        status: 500,
        request: {},
        response: { error: { message: HOSTILE } },
      });
      source.records[0]!.request.headers.push([HOSTILE, HOSTILE]);
    };
    const run = ['--run', `run${HOSTILE}`];
    for (const argv of [
      [],
      ['--json'],
      run,
      [...run, '--json'],
      ['--exchange', '1'],
      ['--exchange', '1', '--json'],
    ]) {
      const { status, out, err } = await inspect(argv, fill);
      expect(status).toBe(0);
      expect(out + err).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\ufeff]/);
    }
    const { err } = await inspect(['--run', HOSTILE]);
    expect(err).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\ufeff]/);
  });

  it('is shown with escapes in place of harmful characters', () => {
    expect(makeHarmless('tab\there\r\nümlaut 漢字 🎉 \u001b[31m \u202e \ud800')).toBe(
      'tab\there\nümlaut 漢字 🎉 \\x1b[31m \\u{202e} \\u{d800}',
    );
  });
});

describe('wrong use', () => {
  it.each([
    [['--exchange', '0'], /--exchange takes a number from 1 on/],
    [['--exchange', 'x'], /--exchange takes a number from 1 on/],
    [['--raw', 'request'], /--raw needs --exchange/],
    [['--exchange', '1', '--raw', 'both'], /--raw takes request or response/],
    [['--exchange', '1', '--raw', 'request', '--json'], /so it cannot be used with --json/],
    [['--run', 'a', '--exchange', '1'], /cannot be combined/],
    [['--full'], /--full requires --run/],
    [['--limit', 'x'], /--limit takes a number of runs/],
    [['--since', 'yesterday'], /--since takes 90m/],
    [['--since', '2026-13-45'], /--since takes 90m/],
    [['--golden', '--not-golden'], /together match no run/],
    [['--run', 'a', '--limit', '3'], /--limit chooses among runs/],
    [['--nonsense'], /nonsense/],
    [['surplus', '--run', 'a'], /surplus belongs to no option/],
    [['surplus:1'], /no field "surplus"/],
  ])('%j is wrong use', async (argv, message) => {
    await expect(inspect(argv)).rejects.toThrow(message);
    await expect(inspect(argv)).rejects.toBeInstanceOf(UsageError);
  });

  it.each([
    [['--run', 'none'], /no run "none"/],
    [['--exchange', '9'], /no exchange 9/],
    [['--db', path.join(tmpdir(), 'not-there.mdb')], /no capture database at .*not-there\.mdb[\s\S]*--db/],
  ])('%j fails with a line that says what to do', async (argv, message) => {
    const { status, out, err } = await inspect(argv);
    expect(status).toBe(1);
    expect(out).toBe('');
    expect(err).toMatch(message);
  });

  it('--help lists the flags', async () => {
    const { status, out } = await inspect(['--help']);
    expect(status).toBe(0);
    for (const flag of ['--db', '--run', '--exchange', '--raw', '--json', '--full'])
      expect(out).toContain(flag);
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
  });
});

describe('--cache', () => {
  const twoTurns = (source: MadeSource): void => {
    const tools = [{ name: 'Read' }, { name: 'Edit' }];
    const system = [{ type: 'text', text: 'Mend code.', cache_control: { type: 'ephemeral' } }];
    const first = { role: 'user', content: 'Go.' };
    const said = { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] };
    const add = (request: object, usage: object): void =>
      void source.add({
        run_id: 'mend-1',
        request: { model: 'claude-sonnet-4-5', system, ...request },
        response: { type: 'message', model: 'claude-sonnet-4-5', stop_reason: 'end_turn', usage, ...said },
      });
    const none = { input_tokens: 5, output_tokens: 5 };
    const written = { ...none, cache_read_input_tokens: 0, cache_creation_input_tokens: 5_000 };
    add({ tools, messages: [first] }, written);
    add({ tools: tools.toReversed(), messages: [first, said, { role: 'user', content: 'More.' }] }, written);
  };

  it('shows which turn missed the cache, why, and at what cost', async () => {
    const { status, out } = await inspect(['--run', 'mend-1', '--cache'], twoTurns);
    expect(status).toBe(0);
    expect(out).toContain('#1  first  read 0 tokens');
    expect(out).toContain('#2  miss   lost 5,000 tokens, $0.01725 (read 0 of 5,000, compared with #1)');
    expect(out).toMatch(
      /why +The same tools are in another order\n +where +tool 1 \(Edit\), after 9 characters\n/,
    );
    expect(out).toContain('2 turns, 1 of them missed the cache: 5,000 tokens lost, $0.01725');
  });

  it('sums all runs by cause, as text and as JSON', async () => {
    const { out } = await inspect(['--cache'], twoTurns);
    expect(out).toMatch(/The same tools are in another order\n +lost +5,000 tokens in 1 turn/);
    const json = JSON.parse((await inspect(['--cache', '--json'], twoTurns)).out);
    expect(json).toMatchObject({
      is_whole: true,
      turns: 2,
      by_agent: [{ agent: '2 tools: Edit, Read', misses: 1 }],
      by_day: [{ day: '2026-01-02', misses: 1 }],
      causes: [{ cause: 'tools_reordered', runs: ['mend-1'] }],
    });
    const run = JSON.parse((await inspect(['--cache', '--json', '--run', 'mend-1'], twoTurns)).out);
    expect(run).toMatchObject({ run_id: 'mend-1', turns: [{ verdict: 'first' }, { verdict: 'miss' }] });
  });

  it('says which run is missing', async () => {
    const { status, err } = await inspect(['--cache', '--run', 'none'], twoTurns);
    expect([status, err]).toEqual([1, expect.stringContaining('has no run "none"')]);
  });
});

describe('--limits', () => {
  const limited = (source: MadeSource, remaining = '50000', reset = '1h0m0s'): void => {
    const record = source.add({
      run_id: 'mend-1',
      request: { model: 'm', messages: [{ role: 'user', content: 'Go.' }] },
      response: { type: 'message', model: 'm', role: 'assistant', content: [], stop_reason: 'end_turn' },
    });
    record.started_at = new Date(Date.now() - 5_000).toISOString();
    record.credential = '0123456789ab';
    record.response.headers.push(
      ['x-ratelimit-limit-tokens', '200000'],
      ['x-ratelimit-remaining-tokens', remaining],
      ['x-ratelimit-reset-tokens', reset],
    );
  };

  it('shows the remaining limits of each credential, and who used them', async () => {
    const { status, out } = await inspect(['--limits'], limited);
    expect(status).toBe(0);
    expect(out).toContain('tokens  75 % used  50,000 of 200,000 left  anthropic, credential 0123456789ab\n');
    expect(out).toMatch(/resets +\S+ \(in 59 min/);
    expect(out).toMatch(/runs +mend-1 \(0 tokens\)/);
    expect(JSON.parse((await inspect(['--limits', '--json'], limited)).out)).toMatchObject({
      limits: [{ name: 'tokens', remaining: 50_000, runs_out_at: null }],
      is_whole: true,
    });
  });

  it('says what has passed since the report in the past tense', async () => {
    const usedUp = (await inspect(['--limits'], (source) => limited(source, '0'))).out;
    expect(usedUp).toMatch(
      /reported +\S+ \(\S+ s ago\)\n +resets +\S+ \(in 59 min.*\n +used up +\S+ \(\S+ s ago\)\n/,
    );
    expect(usedUp).not.toContain('pace');
    const reset = (await inspect(['--limits'], (source) => limited(source, '50000', '1s'))).out;
    expect(reset).toMatch(/reset +\S+ \(\S+ s ago\)\n/);
  });

  it('says so if no answer named a limit', async () => {
    expect((await inspect(['--limits'])).out).toBe('No answer of the last 24 hours reported a limit.\n');
  });
});

it('inspect shows the service tier of an answer, and that it has no price', async () => {
  const { out } = await inspect(['--run', 'mend-1'], (source) => {
    source.add({
      run_id: 'mend-1',
      request: { model: 'claude-sonnet-4-5', messages: [{ role: 'user', content: 'Mend it.' }] },
      response: {
        type: 'message',
        role: 'assistant',
        model: 'claude-sonnet-4-5',
        content: [{ type: 'text', text: 'Yes.' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 5, output_tokens: 10, service_tier: 'priority' },
      },
    });
  });
  expect(out).toMatch(/claude-sonnet-4-5\s+priority tier\s/);
  expect(out).toContain('no price for this tier');
  expect(out).not.toContain('$');
});

describe('--by', () => {
  const tools = (source: MadeSource): void => {
    addToolLoop(source, 'mend-1', true);
    for (const record of source.records) record.tools = ['read_file'];
  };

  it('sums figures, with a line for the total', async () => {
    const { status, out } = await inspect(['--by', 'tool'], tools);
    expect(status).toBe(0);
    const [title, row, all, end] = out.split('\n');
    expect(title).toMatch(/^TOOL +TURNS +FAILED +IN +CACHED +OUT +COST +P50 +P95$/);
    expect(row).toMatch(/^read_file +4 +1 /);
    expect(all).toMatch(/^\(all\) +4 +1 /);
    expect(end).toMatch(
      /^4 exchanges, until \d{4}-\d\d-\d\d \(UTC days\), 3 turns without a known price or tokens$/,
    );
  });

  it('gives the same figures as JSON, of whole days', async () => {
    const { out } = await inspect(['--by', 'day', '--since', '2026-01-01', '--json'], tools);
    expect(JSON.parse(out)).toMatchObject({
      by: 'day',
      from_day: '2026-01-01',
      is_whole: true,
      total: { turns: 4 },
      rows: [{ name: '2026-01-02', turns: 4 }],
    });
  });

  it('names the existing dimensions', async () => {
    await expect(inspect(['--by', 'size'])).rejects.toThrow(
      '--by takes model, provider, agent, tool, tag, note, credential, served_by, day, not "size"',
    );
  });
});
