/** A captured run's conversation, turn by turn. Browser. */
import { useMemo, useRef } from 'preact/hooks';
import type { CapturedRun, CapturedTurn } from '../core/captured.ts';
import type { ReadConversation } from '../core/conversation-reader.ts';
import { findGaps } from '../core/problems.ts';
import { linkTurns, type TurnLinks } from '../core/turn-links.ts';
import { ExchangeRow } from './being-indexed.tsx';
import { type CacheLook, RunCache } from './cache-finding.tsx';
import { GoToTurn, RunKeys } from './run-keys.tsx';
import { TurnView } from './turn-view.tsx';
import { Waterfall } from './waterfall.tsx';

/** Shows a captured run: its time line, its prompt cache and its turns. @param more reads further turns */
export function Conversation({ read, more }: { read: ReadConversation; more: () => void }) {
  return (
    <>
      <RunCache run_id={read.run.run_id} turns={read.turns.length}>
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
      {read.being_indexed.length > 0 ? (
        <ul class="turns" aria-label="Being indexed">
          {read.being_indexed.map((exchange) => (
            <li key={exchange.exchange_id}>
              <ExchangeRow exchange={{ ...exchange, run_is_listed: false }} />
            </li>
          ))}
        </ul>
      ) : null}
    </>
  );
}

function Transcript({
  read: { run, turns },
  looks,
}: {
  read: ReadConversation;
  looks: ReadonlyMap<number, CacheLook>;
}) {
  const known = useRef(new Map<number, TurnLinks>());
  const links = useMemo(() => linkTurns(turns, known.current), [turns]);
  known.current = links;
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
            links={links.get(turn.exchange_id)!}
            has_several={conversations > 1}
            look={looks.get(turn.exchange_id)}
          />
        </li>
      ))}
    </ol>
  );
}

/** A note about turns that are missing, or may be missing, before a turn. */
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
      : 'A turn may be missing here: this turn does not continue a captured answer.';
  return <p class="gap-line">{words}</p>;
}
