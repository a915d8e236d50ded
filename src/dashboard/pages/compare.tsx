/**
 * Two runs side by side (`#/compare?a=…&b=…`): figures of both, and their turns from the first difference on.
 * Browser.
 */
import type { Signal } from '@preact/signals';
import { useMemo, useState } from 'preact/hooks';
import { readForkTags, VERIFY_TAGS } from '../../domain/fork-tags.ts';
import { filterOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import { type CapturedRun, type CapturedTurn, tokensIn } from '../core/captured.ts';
import { type ComparedTurns, compareTurns, type Fork } from '../core/comparison.ts';
import { ConversationReader, type ReadConversation } from '../core/conversation-reader.ts';
import { countOf, formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { formatUsd } from '../core/money.ts';
import { type Resource, useResource } from '../core/resource.ts';
import { linkTurns } from '../core/turn-links.ts';
import { Badge, PageHead, Time } from '../ui/basics.tsx';
import { Cost } from '../ui/cost.tsx';
import { Empty, Failed, Loaded, Skeleton } from '../ui/states.tsx';
import { TurnView } from '../ui/turn-view.tsx';

const OFFERED_RUNS = 20;
const SHOWN_PAIRS = 20;

export function ComparePage() {
  const a = filterOf('a');
  const b = filterOf('b');
  return (
    <>
      <PageHead
        title="Compare two runs"
        sub="The cost and duration of both, and their turns from the first difference on."
      >
        {a === '' || b === '' ? null : (
          <button type="button" class="plain small" onClick={() => setFilters({ a: b, b: a })}>
            Swap
          </button>
        )}
      </PageHead>
      {a === '' || b === '' ? (
        <Choice side={a === '' ? 'a' : 'b'} other={a === '' ? b : a} />
      ) : (
        <BothRuns key={`${a} ${b}`} a={a} b={b} />
      )}
    </>
  );
}

/** Runs to choose from: the newest, or the results of a query. */
function Choice({ side, other }: { side: 'a' | 'b'; other: string }) {
  const [q, setQ] = useState('');
  const found = useResource(`choice ${q}`, (signal) =>
    call('GET /capture/runs', { query: { q: `is:captured ${q}`.trim(), limit: OFFERED_RUNS }, signal }),
  );
  return (
    <>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          setQ(String(new FormData(event.currentTarget as HTMLFormElement).get('q') ?? ''));
        }}
      >
        <label class="field">
          <span>{other === '' ? 'The first run' : `Compare ${other} with`}</span>
          <input
            name="q"
            type="search"
            placeholder="Its id, first words, or a query such as model:haiku since:7d"
          />
        </label>
        <div class="form-actions">
          <button type="submit" class="plain">
            Find
          </button>
        </div>
      </form>
      <Loaded from={found} lines={6}>
        {({ runs }) => {
          const offered = runs.filter(({ run_id }) => run_id !== other);
          return offered.length === 0 ? (
            <Empty title="No other captured run matches." />
          ) : (
            <ul class="choices">
              {offered.map((run) => (
                <li key={run.run_id}>
                  <button type="button" class="quiet" onClick={() => setFilters({ [side]: run.run_id })}>
                    {run.task || run.run_id}
                  </button>
                  <span class="faint">
                    {run.run_id} · {run.models.join(', ')} · {countOf(run.turns, 'turn')} ·{' '}
                    <Time at={run.started_at} />
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </>
  );
}

function useConversation(run_id: string): Resource<ReadConversation> {
  const reader = useMemo(() => new ConversationReader(run_id), [run_id]);
  return useResource(`compared ${run_id}`, (signal) => reader.read(signal));
}

function BothRuns({ a, b }: { a: string; b: string }) {
  const [first, second] = [useConversation(a), useConversation(b)];
  const [left, right] = [first.data.value, second.data.value];
  if (left === null || right === null)
    return (
      <>
        <Missing side="a" run_id={a} from={first} />
        <Missing side="b" run_id={b} from={second} />
      </>
    );
  return (
    <>
      <Figures a={left.run} b={right.run} />
      <Turns a={left} b={right} />
    </>
  );
}

function Missing({
  side,
  run_id,
  from,
}: {
  side: 'a' | 'b';
  run_id: string;
  from: { error: Signal } & Resource<ReadConversation>;
}) {
  if (from.data.value !== null) return null;
  const error = from.error.value;
  if (error === null) return <Skeleton lines={6} />;
  return (
    <section>
      <p>
        <code>{run_id}</code>{' '}
        <button type="button" class="plain small" onClick={() => setFilters({ [side]: '' })}>
          Choose another run
        </button>
      </p>
      <Failed error={error} again={() => from.refresh()} />
    </section>
  );
}

const FIGURES: readonly {
  title: string;
  show: (run: CapturedRun) => preact.ComponentChildren;
  /** Numeric value, for the difference; null: unknown. */
  value?: (run: CapturedRun) => number | null;
  say?: (difference: number) => string;
}[] = [
  { title: 'Status', show: ({ status, status_words }) => <span title={status_words}>{status}</span> },
  { title: 'Verified', show: (run) => <Verdict run={run} /> },
  { title: 'Models', show: ({ models }) => models.join(', ') || '–' },
  { title: 'Began', show: ({ started_at }) => <Time at={started_at} /> },
  { title: 'Turns', show: (run) => showCount(run, run.turns), value: (run) => countIn(run, run.turns) },
  {
    title: 'Took',
    show: ({ duration_ms }) => formatSpan(duration_ms),
    value: ({ duration_ms }) => duration_ms,
    say: formatSpan,
  },
  {
    title: 'Tokens in',
    show: (run) => formatShort(tokensIn(run)),
    value: tokensIn,
    say: formatShort,
  },
  {
    title: 'From the cache',
    show: ({ cache_read_tokens }) => formatShort(cache_read_tokens),
    value: ({ cache_read_tokens }) => cache_read_tokens,
    say: formatShort,
  },
  {
    title: 'Tokens out',
    show: ({ output_tokens }) => formatShort(output_tokens),
    value: ({ output_tokens }) => output_tokens,
    say: formatShort,
  },
  { title: 'Cost', show: (run) => <Cost of={run} />, value: ({ cost_usd }) => cost_usd, say: formatUsd },
  { title: 'Errors', show: (run) => showCount(run, run.errors), value: (run) => countIn(run, run.errors) },
  { title: 'Note', show: ({ note }) => <span dir="auto">{note || '–'}</span> },
];

/** A count over captured exchanges; null: the run was reported, but nothing of it was captured. */
function countIn({ exchanges }: CapturedRun, count: number): number | null {
  return exchanges === 0 ? null : count;
}

function showCount(run: CapturedRun, count: number): string {
  const known = countIn(run, count);
  return known === null ? '–' : formatNumber(known);
}

/** The result of `understudy replay --verify` for a run. */
function Verdict({ run: { tags } }: { run: CapturedRun }) {
  if (tags.includes(VERIFY_TAGS.passed)) return <Badge tone="good">passed</Badge>;
  if (tags.includes(VERIFY_TAGS.failed)) return <Badge tone="bad">failed</Badge>;
  return <>–</>;
}

function Figures({ a, b }: { a: CapturedRun; b: CapturedRun }) {
  return (
    <table class="kept compared-figures" aria-label="Both runs">
      <thead>
        <tr>
          <th scope="col">
            <span class="offstage">Figure</span>
          </th>
          {[a, b].map((run, at) => (
            <th key={at} scope="col">
              <a href={hrefOfCaptured(run.run_id)}>{run.run_id}</a>
            </th>
          ))}
          <th scope="col">Difference</th>
        </tr>
      </thead>
      <tbody>
        {FIGURES.map(({ title, show, value, say }) => (
          <tr key={title}>
            <th scope="row">{title}</th>
            <td>{show(a)}</td>
            <td>{show(b)}</td>
            <td class="number">
              {sayDifference(value?.(a) ?? null, value?.(b) ?? null, say ?? formatNumber)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The second value compared with the first: `+3.2 s (40 % more)`. */
function sayDifference(a: number | null, b: number | null, say: (size: number) => string): string {
  if (a === null || b === null) return '';
  if (a === b) return 'the same';
  const words = `${b > a ? '+' : '−'}${say(Math.abs(b - a))}`;
  if (a === 0) return words;
  const percent = Math.round((Math.abs(b - a) / a) * 100);
  // A value above zero is shown as at most 99 % less.
  return `${words} (${b > 0 && b < a ? Math.min(99, percent) : percent} % ${b > a ? 'more' : 'less'})`;
}

function Turns({ a, b }: { a: ReadConversation; b: ReadConversation }) {
  const fork = findFork(a.run, b.run);
  const { pairs, same, left_out } = useMemo(() => compareTurns(a.turns, b.turns, fork), [a, b]);
  const before = fork === null ? 0 : fork.turn - 1;
  const [shown, setShown] = useState(SHOWN_PAIRS);
  const left = useMemo(() => contextOf(a), [a]);
  const right = useMemo(() => contextOf(b), [b]);
  const different = pairs.slice(same);
  return (
    <section class="compared-turns">
      <h2>
        {same === pairs.length ? 'The turns are the same' : `They differ from turn ${before + same + 1} on`}
      </h2>
      <p class="faint">
        {fork === null
          ? ''
          : `A fork from turn ${fork.turn} on${fork.turn > 1 ? '; the turns before it were replayed' : ''}. `}
        {same === 0
          ? fork === null
            ? 'No turn at the beginning is the same.'
            : ''
          : `${countOf(same, 'turn')} at the beginning ${same === 1 ? 'is' : 'are'} the same, except for the ids of calls.`}
        {left_out === 0
          ? ''
          : ` ${countOf(left_out, 'other request or failed attempt', 'other requests and failed attempts')} left out.`}
        {a.has_more || b.has_more ? ' Only the first turns of a long run are compared.' : ''}
      </p>
      <ol aria-label="Turns that differ">
        {different.slice(0, shown).map((pair, at) => (
          <li key={same + at} class="compared-pair">
            <h3>
              Turn {before + same + at + 1} <Differences pair={pair} />
            </h3>
            <div class="sides">
              <Side
                turn={pair.a}
                at={(fork?.side === 'a' ? 0 : before) + same + at}
                context={left}
                label="First run"
              />
              <Side
                turn={pair.b}
                at={(fork?.side === 'b' ? 0 : before) + same + at}
                context={right}
                label="Second run"
              />
            </div>
          </li>
        ))}
      </ol>
      {different.length > shown ? (
        <button type="button" class="plain more" onClick={() => setShown(shown + SHOWN_PAIRS)}>
          Show more turns ({shown} of {different.length})
        </button>
      ) : null}
    </section>
  );
}

/** Finds out whether one of the runs continues the other. */
function findFork(a: CapturedRun, b: CapturedRun): Fork | null {
  const [ofA, ofB] = [readForkTags(a.request_tags), readForkTags(b.request_tags)];
  if (ofB?.run_id === a.run_id) return { side: 'b', turn: ofB.turn };
  return ofA?.run_id === b.run_id ? { side: 'a', turn: ofA.turn } : null;
}

function Differences({ pair: { a, b, asks_differ, answers_differ } }: { pair: ComparedTurns }) {
  if (a === null || b === null) return <Badge tone="warn">only in one</Badge>;
  return (
    <>
      {asks_differ ? <Badge tone="warn">other request</Badge> : null}{' '}
      {answers_differ ? <Badge tone="warn">other answer</Badge> : null}
      {asks_differ || answers_differ ? null : <Badge>the same</Badge>}
    </>
  );
}

type SideContext = ReturnType<typeof contextOf>;

function contextOf({ run: { run_id }, turns }: ReadConversation) {
  const missing = turns.length === 0 ? 'Nothing of this run was captured.' : 'This run has ended.';
  return { run_id, missing, links: linkTurns(turns) };
}

function Side({
  turn,
  at,
  context,
  label,
}: {
  turn: CapturedTurn | null;
  at: number;
  context: SideContext;
  label: string;
}) {
  return (
    <section aria-label={`${label}, turn ${at + 1}`}>
      <p class="side-run">
        <code>{context.run_id}</code>
      </p>
      {turn === null ? (
        <p class="faint">{context.missing}</p>
      ) : (
        <TurnView
          turn={turn}
          at={at}
          links={context.links.get(turn.exchange_id)!}
          has_several={false}
          href={hrefOfCaptured(context.run_id, { turn: String(turn.exchange_id) })}
        />
      )}
    </section>
  );
}
