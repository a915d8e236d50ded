/** One conversation: what was said, called and answered, turn by turn, as it was captured. Browser. */
import { useMemo } from 'preact/hooks';
import { hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import { type CapturedRun, type CapturedTurn, findCalls, findResults, tokensIn } from '../core/captured.ts';
import { ConversationReader, type ReadConversation } from '../core/conversation-reader.ts';
import { formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { writeMarkdown } from '../core/markdown.ts';
import { findGaps } from '../core/problems.ts';
import { useResource } from '../core/resource.ts';
import { CopyButton, Id, Stat, Time } from '../ui/basics.tsx';
import { type CacheLook, RunCache } from '../ui/cache-finding.tsx';
import { saveFile } from '../ui/copy.ts';
import { Cost, sayCost } from '../ui/cost.tsx';
import { act } from '../ui/notice.tsx';
import { RunBadges } from '../ui/run-badges.tsx';
import { RunEnd } from '../ui/run-end.tsx';
import { RunFamily } from '../ui/run-family.tsx';
import { GoToTurn, RunKeys } from '../ui/run-keys.tsx';
import { Loaded } from '../ui/states.tsx';
import { TurnView } from '../ui/turn-view.tsx';
import { Waterfall } from '../ui/waterfall.tsx';

export function ConversationPage({ run_id }: { run_id: string }) {
  const reader = useMemo(() => new ConversationReader(run_id), [run_id]);
  const conversation = useResource(`conversation ${run_id}`, (signal) => reader.read(signal), {
    every_ms: 3_000,
  });
  const more = () => {
    reader.want();
    conversation.refresh();
  };
  const exportAll = () =>
    act(async () => {
      const whole = new ConversationReader(run_id);
      whole.want(Number.POSITIVE_INFINITY);
      const { run, turns } = await whole.read(new AbortController().signal);
      saveFile(
        `conversation-${run_id.replaceAll(/[^\w.-]+/g, '-')}.json`,
        'application/json',
        JSON.stringify({ run, turns }, null, 2),
      );
    });
  return (
    <>
      <nav class="crumbs" aria-label="Way back">
        <a href={hrefOf('conversations')}>Conversations</a>
        <span aria-hidden="true">/</span>
        <Id id={run_id} />
      </nav>
      <Loaded from={conversation} lines={12} heading="Conversation">
        {(read) => (
          <>
            <ConversationHead read={read} exportAll={exportAll} refresh={conversation.refresh} />
            <RunCache run_id={run_id} turns={read.turns.length}>
              {(looks, summary) => (
                <>
                  <Waterfall turns={read.turns} children={read.children} />
                  {summary}
                  <RunKeys read={read} more={more} />
                  <Transcript read={read} looks={looks} />
                </>
              )}
            </RunCache>
            <GoToTurn read={read} more={more} />
            {read.has_more ? (
              <button type="button" class="plain more" onClick={more}>
                Show more turns ({read.turns.length} of {read.run.exchanges})
              </button>
            ) : null}
          </>
        )}
      </Loaded>
    </>
  );
}

function ConversationHead({
  read: { run, turns, parent_is_captured },
  exportAll,
  refresh,
}: {
  read: ReadConversation;
  exportAll: () => void;
  refresh: () => void;
}) {
  const cached = run.cache_read_tokens ?? 0;
  return (
    <header class="conversation-head">
      <div class="page-head">
        <div>
          <h1 dir="auto">{run.task === null || run.task === '' ? run.run_id : run.task}</h1>
          <p>
            {run.models.join(', ') || 'no model answered'}
            {run.providers.length > 0 ? ` · ${run.providers.join(', ')}` : ''}
            {run.notes.length > 0 ? ` · ${run.notes.join(', ')}` : ''} · began <Time at={run.started_at} />
          </p>
        </div>
        <div class="actions">
          <MarkButtons run={run} refresh={refresh} />
          <a class="button plain small" href={hrefOf('compare', null, { a: run.run_id })}>
            Compare with…
          </a>
          <CopyButton text={() => writeMarkdown(run, turns)} label="Copy as Markdown" />
          <button type="button" class="plain small" onClick={exportAll}>
            Export JSON
          </button>
        </div>
      </div>
      <p class="badges">
        <RunBadges run={run} />
      </p>
      <RunEnd run={run} turns={turns} />
      <div class="stats slim">
        <Stat value={formatNumber(run.turns)} label="Turns" sub={sayOthers(run)} />
        <Stat value={formatSpan(run.duration_ms)} label="Took" sub={sayWaiting(turns)} />
        <Stat
          value={formatShort(tokensIn(run))}
          label="Tokens in"
          sub={cached > 0 ? `${formatShort(cached)} from the cache` : undefined}
        />
        <Stat value={formatShort(run.output_tokens)} label="Tokens out" />
        <Stat value={<Cost of={run} />} label="Cost" sub={sayCost(run, run.student_turns)} />
        <Stat value={formatNumber(run.errors)} label="Errors" tone={run.errors > 0 ? 'bad' : 'plain'} />
      </div>
      <RunFamily run={run} parent_is_captured={parent_is_captured} />
      {run.golden === false && run.reasons.length > 0 ? (
        <details class="fold reasons">
          <summary>Why it is not golden</summary>
          <ul>
            {run.reasons.map(({ words, difference }) => (
              <li key={words}>
                {words}
                {difference === undefined ? null : (
                  <dl class="difference">
                    <dt>Read</dt>
                    <dd dir="auto">{difference.read}</dd>
                    <dt>Repeated</dt>
                    <dd dir="auto">{difference.repeated}</dd>
                  </dl>
                )}
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </header>
  );
}

/** A person's word on how the run went. */
function MarkButtons({ run: { run_id, mark }, refresh }: { run: CapturedRun; refresh: () => void }) {
  const say = async (next: CapturedRun['mark']) => {
    const ask = { params: { id: run_id }, body: { mark: next === mark ? null : next } };
    if (await act(() => call('POST /capture/runs/{id}/mark', ask))) refresh();
  };
  return (
    <>
      {(['good', 'bad'] as const).map((choice) => (
        <button
          key={choice}
          type="button"
          class="plain small"
          aria-pressed={mark === choice}
          title={mark === choice ? 'Take the mark away' : undefined}
          onClick={() => say(choice)}
        >
          {mark === choice ? `Marked ${choice}` : `Mark ${choice}`}
        </button>
      ))}
    </>
  );
}

function sayOthers({ exchanges, turns }: CapturedRun): string | undefined {
  const others = exchanges - turns;
  return others > 0 ? `and ${formatNumber(others)} other requests` : undefined;
}

function sayWaiting(turns: readonly CapturedTurn[]): string | undefined {
  const waited = turns.reduce((sum, { latency_ms }) => sum + latency_ms, 0);
  return turns.length > 0 ? `${formatSpan(waited)} waiting` : undefined;
}

function Transcript({
  read: { run, turns },
  looks,
}: {
  read: ReadConversation;
  looks: ReadonlyMap<number, CacheLook>;
}) {
  const results = useMemo(() => findResults(turns), [turns]);
  const calls = useMemo(() => findCalls(turns), [turns]);
  const conversations = new Set(turns.map(({ conversation }) => conversation).filter((name) => name !== null))
    .size;
  return (
    <ol class="turns" aria-label="Turns">
      {turns.map((turn, at) => (
        <li key={turn.exchange_id} id={`turn-${turn.exchange_id}`} class="turn-place">
          <GapBefore run={run} turn={turn} before={turns[at - 1]} />
          <TurnView
            turn={turn}
            at={at}
            results={results}
            calls={calls}
            has_several={conversations > 1}
            look={looks.get(turn.exchange_id)}
          />
        </li>
      ))}
    </ol>
  );
}

/** What is missing between two turns, as their numbers tell. */
function GapBefore({
  run,
  turn,
  before,
}: {
  run: CapturedRun;
  turn: CapturedTurn;
  before: CapturedTurn | undefined;
}) {
  const gaps = findGaps(run, turn, before);
  if (gaps.length === 0 && turn.link !== 'breaks') return null;
  const words =
    gaps.length > 0
      ? `Missing here: ${gaps.map(([first, last]) => (first === last ? `request ${first}` : `requests ${first} to ${last}`)).join(', ')}. They did not pass this gateway, or were not captured.`
      : 'A turn may be missing here: this one goes on from no answer that was captured.';
  return <p class="gap-line">{words}</p>;
}
