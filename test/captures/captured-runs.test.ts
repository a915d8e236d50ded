/** The stored list of captured runs, compared with `inspect` over the same exchanges. */
import { describe, expect, it } from 'vitest';
import { RecentExchanges } from '../../src/captures/captured-activity.ts';
import { CapturedRuns, type HasTime, RunWithin } from '../../src/captures/captured-runs.ts';
import { tellConversation } from '../../src/captures/conversation.ts';
import { summarizeRuns } from '../../src/captures/inspect.ts';
import type { CapturedRunRow } from '../../src/domain/captured-run.ts';
import { NO_MARKS, NO_WORDS } from '../../src/domain/run-mark.ts';
import type { PagePlace } from '../../src/domain/run-query/page.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import { ChangedIds } from '../../src/std/changed-ids.ts';
import { runKey } from '../../src/storage/text-index/run-key.ts';
import { addToolLoop, MadeSource } from './made-run.ts';

const ALWAYS: HasTime = () => true;
const NEVER: HasTime = () => false;
const NOW_MS = Date.UTC(2026, 0, 3);

function follow(source: MadeSource, max?: number): CapturedRuns {
  const runs = new CapturedRuns(max === undefined ? {} : { max });
  for (const record of source.summaries()) runs.add(record);
  return runs;
}

function readAll(
  runs: CapturedRuns,
  source: MadeSource,
  { limit, q = '', hasTime = ALWAYS }: { limit: number; q?: string; hasTime?: HasTime },
): { rows: CapturedRunRow[]; pages: number } {
  const rows: CapturedRunRow[] = [];
  let after: PagePlace | null = null;
  for (let pages = 1; ; pages++) {
    const page = runs.page(source, { limit, after, query: parseRunQuery(q), now_ms: NOW_MS }, hasTime);
    expect(page.runs.length).toBeLessThanOrEqual(limit);
    rows.push(...page.runs);
    if (page.next === null) return { rows, pages };
    after = page.next;
  }
}

function say(text: string, stop_reason: string) {
  return {
    id: 'msg',
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: [{ type: 'text', text }],
    stop_reason,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
}

const ask = (content: string) => ({ model: 'claude-x', messages: [{ role: 'user', content }] });

/** Labelled and unlabelled runs, complete and broken ones, interleaved. */
function makeSource(): MadeSource {
  const source = new MadeSource();
  addToolLoop(source, 'labelled', true);
  addToolLoop(source, 'unlabelled', false);
  source.add({ run_id: null, shape: null, path: '/v1/models' });
  source.add({ run_id: 'cut', seq: 1, request: ask('Write a poem.'), response: say('It', 'max_tokens') });
  source.add({ run_id: 'gap', seq: 1, request: ask('Find it.'), response: say('Here', 'end_turn') });
  source.add({ run_id: 'gap', seq: 3, request: ask('Find more.'), response: say('There', 'end_turn') });
  return source;
}

describe('the list of runs', () => {
  it('reads recent runs when they have settled, although nothing comes after them', () => {
    const source = makeSource();
    const runs = follow(source);
    const readFrom = (settled_ms: number): void => {
      while (runs.readUnread(source, settled_ms));
    };
    readFrom(Number.NEGATIVE_INFINITY);
    expect(readAll(runs, source, { limit: 10, hasTime: NEVER }).rows.some(({ task }) => task === null)).toBe(
      true,
    );
    readFrom(Number.POSITIVE_INFINITY);
    const { rows } = readAll(runs, source, { limit: 10, hasTime: NEVER });
    expect(rows.filter(({ task, golden }) => task === null || golden === null)).toEqual([]);
  });

  it('finds exactly the runs whose failed calls the activity of a period counts', () => {
    const source = new MadeSource();
    const at = (days: number) => new Date(NOW_MS - days * 86_400_000).toISOString();
    const add = (run_id: string, days: number, change: Partial<ReturnType<MadeSource['add']>> = {}) =>
      Object.assign(source.add({ run_id, request: ask('Find it.'), response: say('It', 'end_turn') }), {
        started_at: at(days),
        ...change,
      });
    add('failed before', 1.5, { status: 529 });
    add('failed before', 0.5);
    add('failed', 0.4, { status: 529 });
    add('failed', 0.3, { status: 0, stop_reason: null });
    add('cut', 0.2, { aborted: true, stop_reason: null });
    add('cut', 0.1);
    add('tool failed', 0.1, { failed_results: 2 });
    add('fine', 0.1);
    const recent = new RecentExchanges();
    const range = { first_id: 1, last_id: source.records.length };
    recent.follow(source, range, NOW_MS - 86_400_000, ALWAYS);
    expect(recent.sum(NOW_MS - 86_400_000, NOW_MS).errors).toBe(3);
    const find = (q: string) =>
      readAll(follow(source), source, { limit: 10, q }).rows.map(({ run_id }) => run_id);
    expect(find('is:captured failed:24h..')).toEqual(['cut', 'failed']);
    expect(find('failed:..24h')).toEqual(['failed before']);
    expect(find('-failed:48h..').sort()).toEqual(['fine', 'tool failed']);
  });

  it('shows the runs of a session, and drops child runs with their runs', () => {
    const source = new MadeSource();
    const add = (run_id: string, run_kind?: 'subagent' | 'title') => {
      const record = source.add({ run_id, request: ask('Find it.'), response: say('Here', 'end_turn') });
      record.session_id = 's';
      if (run_kind === undefined) return;
      record.parent_run_id = 's';
      record.run_kind = run_kind;
    };
    add('s:title', 'title');
    add('s');
    add('s:a1', 'subagent');
    add('s:a1', 'subagent');
    source.add({ run_id: 'other', request: ask('Find it.'), response: say('Here', 'end_turn') });
    const { rows } = readAll(follow(source), source, { limit: 10, q: 'session:=s' });
    expect(rows).toMatchObject([
      { run_id: 's:a1', kind: 'subagent', parent_run_id: 's', golden: true, child_runs: [] },
      {
        run_id: 's',
        kind: null,
        parent_run_id: null,
        child_runs: [
          { run_id: 's:title', kind: 'title' },
          { run_id: 's:a1', kind: 'subagent' },
        ],
      },
      { run_id: 's:title', kind: 'title', golden: false, reasons: [{ code: 'side_call' }] },
    ]);
    const few = follow(source, 3);
    expect(few.row(source, 's', ALWAYS, NOW_MS)?.child_runs).toEqual([{ run_id: 's:a1', kind: 'subagent' }]);
  });

  it('shows for each run what inspect shows, newest first', async () => {
    const source = makeSource();
    const runs = follow(source);
    const { runs: summaries, without_run } = await summarizeRuns(source);
    const { rows } = readAll(runs, source, { limit: 10 });
    expect(rows.map(({ run_id }) => run_id)).toEqual(['gap', 'cut', 'unlabelled', 'labelled']);
    expect(rows.map(({ task }) => task)).toEqual([
      'Find it.',
      'Write a poem.',
      'Mend the parser.',
      'Mend the parser.',
    ]);
    for (const summary of summaries) {
      const row = rows.find(({ run_id }) => run_id === summary.run_id)!;
      const { first_seq: _first, last_seq: _last, outcome: _outcome, ...same } = summary;
      expect(row).toMatchObject(same);
    }
    expect(runs.without_run).toBe(without_run!.exchanges);
    expect(rows[0]).toMatchObject({ gaps: [[2, 2]], golden: false, duration_ms: 2_500 });
  });

  it('has each run once, for any page size, filter and time', () => {
    const source = makeSource();
    for (const limit of [1, 2, 3, 10]) {
      for (const hasTime of [ALWAYS, NEVER]) {
        for (const [q, found] of [
          ['', ['gap', 'cut', 'unlabelled', 'labelled']],
          ['is:golden', ['unlabelled', 'labelled']],
          ['-is:golden', ['gap', 'cut']],
          ['POEM', ['cut']],
          ['-poem -run:gap', ['unlabelled', 'labelled']],
          ['label', ['unlabelled', 'labelled']],
          ['baseline is:golden', ['unlabelled', 'labelled']],
          ['model:=claude-x-20260101', ['unlabelled', 'labelled']],
          ['model:2026', ['unlabelled', 'labelled']],
          ['tool:read_file,edit_file', ['unlabelled', 'labelled']],
          ['tool:nothing', []],
          ['started:>=2026-01-02T03:04:10Z', ['gap', 'cut']],
          ['started:<2026-01-02T03:04:05Z', ['labelled']],
          ['served:student', []],
          ['has:gap', ['gap']],
          ['reason:seq_gap,unfinished', ['gap', 'cut']],
          ['status:unknown', ['cut']],
          ['status:ok sort:started-asc', ['labelled', 'unlabelled', 'gap']],
          ['turns:<=1', ['cut']],
          ['sort:turns-asc', ['cut', 'gap', 'unlabelled', 'labelled']],
        ] as [string, string[]][]) {
          const { rows } = readAll(follow(source), source, { limit, q, hasTime });
          expect(
            rows.map(({ run_id }) => run_id),
            JSON.stringify({ limit, q }),
          ).toEqual(found);
        }
      }
    }
  });

  it('lists the same runs in one pass as in pages, in every order', () => {
    const source = makeSource();
    for (const q of ['', 'sort:cost', 'sort:started-asc', 'is:golden', '-is:golden sort:tokens', 'poem']) {
      const runs = follow(source);
      const { count, rows } = runs.all(source, { query: parseRunQuery(q), now_ms: NOW_MS });
      const all = [...rows];
      expect(all).toEqual(readAll(follow(source), source, { limit: 2, q }).rows);
      expect(count).toBeGreaterThanOrEqual(all.length);
    }
  });

  it('tests each run about once over all uncounted pages, however long the list is', () => {
    const testsOf = (size: number): { tests: number; found: string[] } => {
      const source = new MadeSource();
      for (let at = 0; at < size; at++)
        source.add({ run_id: `r-${at}`, request: ask('Find it.'), response: say('Here', 'end_turn') });
      let tests = 0;
      const said = {
        wordsOf: () => NO_WORDS,
        marksOf: () => {
          tests += 1;
          return NO_MARKS;
        },
        reportedOf: () => undefined,
        reported: () => [],
        changes: new ChangedIds(),
        allReportedOf: () => [],
        findText: () => null,
      };
      const runs = new CapturedRuns({ said });
      for (const record of source.summaries()) runs.add(record);
      const found: string[] = [];
      const query = parseRunQuery('-is:bad');
      for (let after: PagePlace | null = null, isMore = true; isMore; isMore = after !== null) {
        const question = { limit: 100, after, query, now_ms: NOW_MS, is_counted: false };
        const page = runs.page(source, question, NEVER);
        found.push(...page.runs.map(({ run_id }) => run_id));
        after = page.next;
      }
      return { tests, found };
    };
    const [few, many] = [testsOf(200), testsOf(800)];
    expect(many.found).toHaveLength(800);
    expect(new Set(many.found).size).toBe(800);
    // Each page also tests the first run of the next page.
    expect(many.tests / 800).toBeLessThan((1.1 * few.tests) / 200);
  });

  it('shows null for values from bodies without time to read them, and reads them on request', () => {
    const source = makeSource();
    const runs = follow(source);
    const { rows } = readAll(runs, source, { limit: 10, hasTime: NEVER });
    expect(source.bodiesRead).toBe(0);
    expect(rows.map(({ task }) => task)).toEqual([null, null, null, null]);
    // Runs that the records alone rule out need no bodies. A run with a failed call or without x-svc-seq needs them.
    expect(rows.map(({ golden }) => golden)).toEqual([false, false, null, null]);
    while (runs.readWanted(source, NOW_MS));
    const known = readAll(runs, source, { limit: 10, hasTime: NEVER }).rows;
    expect(known).toEqual(readAll(follow(source), source, { limit: 10 }).rows);
  });

  it('ends a page of an export early if time runs out, but reads all values of its rows', () => {
    const source = makeSource();
    const all = readAll(follow(source), source, { limit: 100 }).rows;
    for (const time of [0, 2]) {
      const runs = follow(source);
      const rows: CapturedRunRow[] = [];
      const found: number[] = [];
      for (let after: PagePlace | null | undefined; after !== null; ) {
        let left = time;
        const question = { limit: 100, after: after ?? null, query: parseRunQuery(''), now_ms: NOW_MS };
        const page = runs.page(source, { ...question, is_read: true }, () => left-- > 0);
        if (page.runs.length > 0) found.push(page.runs.length);
        rows.push(...page.runs);
        after = page.next;
      }
      expect(rows).toEqual(all);
      expect(rows.every(({ task, golden }) => task !== null && golden !== null)).toBe(true);
      expect(Math.max(...found)).toBe(time + 1);
    }
  });

  it('searches for words without reading the first words that the full-text index has', () => {
    const source = makeSource();
    const indexed = source.records.length - 3;
    const found = {
      test: (runId: string) => runId === 'labelled',
      testKey: (key: number) => key === runKey('labelled'),
      covers: (id: number) => id <= indexed,
      read: () => null,
    };
    const said = {
      wordsOf: () => NO_WORDS,
      marksOf: () => NO_MARKS,
      reportedOf: () => undefined,
      allReportedOf: () => [],
      reported: () => [],
      changes: new ChangedIds(),
      findText: () => found,
    };
    const runs = new CapturedRuns({ said });
    for (const record of source.summaries()) runs.add(record);
    const turns = source.records.filter(({ kind }) => kind === 'turn');
    const runsOf = (records: readonly { run_id: string | null }[]) => records.map(({ run_id }) => run_id);
    const later = new Set(runsOf(turns.filter(({ id }) => id > indexed)));
    for (const runId of [null, ...runsOf(turns.filter(({ id }) => id <= indexed))]) later.delete(runId);
    expect(later.size).toBeGreaterThan(0);
    for (const not_before of [0, 1]) {
      const question = {
        limit: 50,
        after: null,
        query: parseRunQuery('zebrafish'),
        now_ms: NOW_MS,
        not_before,
      };
      // The page ends before the first run whose words must be read.
      const { matched, unread } = runs.page(source, { ...question, limit: 0 }, NEVER);
      expect([matched, unread, source.bodiesRead]).toEqual([1, later.size, 0]);
    }
  });

  it('puts a late exchange of a long run in order once there is time', () => {
    const source = new MadeSource();
    const add = (run_id: string, seq: number) =>
      source.add({ run_id, seq, request: ask('Find it.'), response: say('Here', 'end_turn') });
    const runs = new CapturedRuns({});
    runs.add(add('long', 2));
    for (let i = 0; i < 4_096; i++) runs.add(add('others', i + 1));
    runs.add(add('long', 1));
    const searched: string[] = [];
    const summaries = source.summaries.bind(source);
    source.summaries = (filter = {}) => {
      searched.push(filter.run_id ?? '');
      return summaries(filter);
    };
    const page = (hasTime: HasTime) => readAll(runs, source, { limit: 1, q: 'run:=long', hasTime }).rows;
    expect(page(NEVER)).toMatchObject([{ run_id: 'long', turns: 2, golden: null }]);
    expect(searched).toEqual([]);
    while (runs.readWanted(source, NOW_MS));
    expect(searched).toContain('long');
    searched.length = 0;
    expect(page(NEVER)).toMatchObject([{ run_id: 'long', turns: 2, golden: true }]);
    expect(searched).toEqual([]);
  });

  it('judges a run again when it continues', () => {
    const source = new MadeSource();
    source.add({ run_id: 'r', request: ask('Go.'), response: say('Gone', 'end_turn') });
    const runs = follow(source);
    expect(runs.row(source, 'r', ALWAYS, NOW_MS)).toMatchObject({ golden: true, exchanges: 1 });
    runs.add(source.add({ run_id: 'r', request: ask('Other.'), response: say('No', 'end_turn') }));
    expect(runs.row(source, 'r', NEVER, NOW_MS)).toMatchObject({ golden: null, reasons: [], exchanges: 2 });
    expect(runs.row(source, 'r', ALWAYS, NOW_MS)).toMatchObject({
      golden: false,
      reasons: [{ code: 'unlinked' }],
    });
  });

  it('judges a long run for a list only after a pause, and at once if it is asked for', () => {
    const source = new MadeSource();
    const messages: unknown[] = [];
    for (let at = 1; at <= 20; at++) {
      messages.push({ role: 'user', content: `Question ${at}` });
      const response = say(`Answer ${at}`, 'end_turn');
      source.add({
        run_id: 'chat',
        seq: at,
        request: { model: 'claude-x', messages: [...messages] },
        response,
      });
      messages.push({ role: 'assistant', content: response.content });
    }
    const last = source.records.at(-1)!;
    const ended_ms = Date.parse(last.started_at) + last.duration_ms;
    const runs = follow(source);
    const askAt = (now_ms: number, q = '') => {
      const page = runs.page(source, { limit: 5, after: null, query: parseRunQuery(q), now_ms }, ALWAYS);
      while (runs.readWanted(source, now_ms));
      return page;
    };
    expect(askAt(ended_ms + 399).runs).toMatchObject([{ run_id: 'chat', task: 'Question 1', golden: null }]);
    // The run's first turn was read, because a row shows its first words.
    expect(source.bodiesRead).toBe(2);
    expect(askAt(ended_ms + 399, 'is:golden')).toMatchObject({ runs: [], unread: 1 });
    expect(runs.countGolden(source, ended_ms + 399)).toMatchObject({ golden: 0, not_judged: 1 });
    expect(source.bodiesRead).toBe(2);
    expect(askAt(ended_ms + 400, 'is:golden')).toMatchObject({ runs: [{ golden: true }], unread: 0 });
    expect(follow(source).row(source, 'chat', ALWAYS, ended_ms)).toMatchObject({ golden: true });
  });

  it('keeps the newest runs and counts the dropped ones', () => {
    const source = new MadeSource();
    for (let at = 1; at <= 300; at++)
      source.add({ run_id: `r${at}`, seq: 1, request: ask(`${at}`), response: say('Done', 'end_turn') });
    const runs = follow(source, 128);
    const { rows } = readAll(runs, source, { limit: 50 });
    expect(runs.size).toBeLessThanOrEqual(128);
    expect(runs.size + runs.left_out).toBe(300);
    expect(rows.map(({ run_id }) => run_id)).toEqual(
      Array.from({ length: runs.size }, (_, at) => `r${300 - at}`),
    );
    expect(runs.row(source, 'r1', ALWAYS, NOW_MS)).toBeUndefined();
  });
});

/** An agent that makes the same failing call again and again. */
function makeLoop(turns: number): MadeSource {
  const source = new MadeSource();
  const messages: unknown[] = [{ role: 'user', content: 'Mend the parser.' }];
  for (let at = 1; at <= turns; at++) {
    const content = [{ type: 'tool_use', id: `call_${at}`, name: 'run_tests', input: { file: 'a.test.ts' } }];
    source.add({
      run_id: 'again',
      seq: at,
      request: { model: 'claude-x', messages: [...messages] },
      response: { type: 'message', role: 'assistant', content, stop_reason: 'tool_use', usage: {} },
    });
    const failed = { type: 'tool_result', tool_use_id: `call_${at}`, content: '1 failed', is_error: true };
    messages.push({ role: 'assistant', content }, { role: 'user', content: [failed] });
  }
  return source;
}

describe('a conversation', () => {
  it('shows what each turn adds, calls with their results, and retries', () => {
    const source = makeSource();
    const told = [...tellConversation(new RunWithin(source, 5, 8), 'unlabelled')];
    expect(
      told.map(({ exchange_id, failed, link, is_retry, follows }) => ({
        exchange_id,
        failed,
        link,
        is_retry,
        follows,
      })),
    ).toEqual([
      { exchange_id: 5, failed: false, link: 'starts', is_retry: false, follows: null },
      { exchange_id: 6, failed: true, link: 'continues', is_retry: false, follows: 5 },
      { exchange_id: 7, failed: false, link: 'repeats', is_retry: true, follows: 6 },
      { exchange_id: 8, failed: false, link: 'continues', is_retry: false, follows: 7 },
    ]);
    expect(told[0]!.system).toEqual([{ type: 'text', text: 'You mend code.' }]);
    expect(told[1]!).toMatchObject({
      status: 529,
      error: 'overloaded_error: Overloaded',
      system: null,
      content: [],
    });
    expect(told[0]!.content.at(-1)).toMatchObject({ type: 'tool_call', id: 'toolu_1', name: 'read_file' });
    const results = told.flatMap(({ messages_added }) =>
      messages_added.flatMap(({ content }) => content.filter(({ type }) => type === 'tool_result')),
    );
    expect(results).toMatchObject([
      { call_id: 'toolu_1', is_error: false },
      { call_id: 'toolu_2', is_error: true },
    ]);
    expect(told.at(-1)!.content).toEqual([{ type: 'text', text: 'Done: one line.' }]);
  });

  it('shows which calls a request settles, how long they took, and which monitors fired', () => {
    const source = new MadeSource();
    addToolLoop(source, 'loop', true);
    for (const record of source.records) record.duration_ms = 400;
    const told = [...tellConversation(source, 'loop')];
    expect(told.map(({ results }) => results)).toEqual([
      [],
      [{ call_id: 'toolu_1', name: 'read_file', exchange_id: 1, duration_ms: 600, is_error: false }],
      [],
      [{ call_id: 'toolu_2', name: 'read_file', exchange_id: 3, duration_ms: 600, is_error: true }],
    ]);
    expect(told.flatMap(({ fired }) => fired)).toEqual([]);
    expect([...tellConversation(makeLoop(6), 'again')].flatMap(({ fired }) => fired)).toContainEqual({
      monitor: 'infinite_loop',
      exchange_id: 3,
    });
  });

  it('names binary data by SHA-256, also in results of tools, and omits a turn that is too large', () => {
    const source = new MadeSource();
    const data = Buffer.from('bytes of a picture').toString('base64');
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    source.add({
      run_id: 'r',
      request: {
        model: 'claude-x',
        messages: [
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [image] }, image] },
        ],
      },
      response: say('Seen', 'end_turn'),
    });
    source.add({ run_id: 'r', request: ask('x'.repeat(9 << 20)), response: say('Large', 'end_turn') });
    const [seen, large] = [...tellConversation(source, 'r')];
    expect(JSON.stringify(seen)).not.toContain(data);
    expect(JSON.stringify(seen).match(/"source":"file","data":"[\da-f]{64}"/g)).toHaveLength(2);
    expect(large).toMatchObject({ is_cut: true, messages_added: [], content: [], exchange_id: 2 });
  });
});
