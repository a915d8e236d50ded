/** One turn of a conversation: request, answer, and facts about the exchange. Browser. */
import { hrefHere } from '../core/address.ts';
import { blocksOf, type CapturedTurn, type Message, tokensIn } from '../core/captured.ts';
import { countOf, formatClock, formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { memo } from '../core/memo.ts';
import type { TurnLinks } from '../core/turn-links.ts';
import { Badge } from './basics.tsx';
import { type BlockContext, Blocks } from './blocks.tsx';
import { CacheFinding, type CacheLook } from './cache-finding.tsx';
import { TurnCost } from './cost.tsx';
import { ExchangeDetails } from './exchange-details.tsx';
import { LongText } from './long-text.tsx';
import { StepWhy } from './step-why.tsx';

interface TurnProps {
  turn: CapturedTurn;
  /** Index of the turn in the run, from 0 on. */
  at: number;
  links: TurnLinks;
  /** Whether the run contains several conversations. */
  has_several: boolean;
  /** How the turn used the provider's prompt cache; absent if unknown. */
  look?: CacheLook | undefined;
  /** Address of the turn; absent: on this page. */
  href?: string;
}

/** Shows one turn. The turn is drawn again only if one of its properties is another object. */
export const TurnView = memo(({ turn, at, links, has_several, look, href }: TurnProps) => {
  const context = { exchange_id: turn.exchange_id, results: links.results };
  const added = turn.messages_added
    .map((message) => withoutPlaced(message, links.calls))
    .filter((value) => value !== null);
  return (
    <article
      class={`turn ${turn.failed ? 'turn-failed' : ''} ${turn.served_by === 'student' ? 'turn-student' : ''}`}
    >
      <TurnHead
        turn={turn}
        at={at}
        has_several={has_several}
        href={href ?? hrefHere({ turn: String(turn.exchange_id) })}
      />
      <div class="turn-body">
        <Setting turn={turn} context={context} />
        {added.map(({ role, content }, place) => (
          <section key={place} class={`said said-${role}`}>
            <h3>{role}</h3>
            <Blocks content={content} context={context} />
          </section>
        ))}
        {turn.content.length === 0 ? null : (
          <section class="said said-assistant">
            <h3>
              {turn.served_by === 'student' ? 'student' : 'assistant'}
              {turn.stop_reason === null ||
              turn.stop_reason === 'end_turn' ||
              turn.stop_reason === 'tool_use' ? null : (
                <Badge tone="warn">{turn.stop_reason}</Badge>
              )}
            </h3>
            <Blocks content={turn.content} context={context} />
          </section>
        )}
        <Trouble turn={turn} />
        {look === undefined ? null : <CacheFinding look={look} />}
        {turn.relegation === null || turn.served_by === 'student' ? null : (
          <StepWhy exchange_id={turn.exchange_id} relegation={turn.relegation} />
        )}
        <ExchangeDetails turn={turn} />
      </div>
    </article>
  );
});

function TurnHead({
  turn,
  at,
  has_several,
  href,
}: {
  turn: CapturedTurn;
  at: number;
  has_several: boolean;
  href: string;
}) {
  const { usage } = turn;
  const cached = usage.cache_read_tokens ?? 0;
  const has_no_price = turn.cost_usd === null && usage.output_tokens !== null;
  return (
    <header class="turn-head">
      <h2>
        <a href={href} title="Address of this turn">
          <span class="offstage">Turn </span>
          {at + 1}
        </a>
      </h2>
      <span title={`began ${formatClock(turn.started_at)}`}>
        <b>{formatSpan(turn.latency_ms)}</b>
      </span>
      {turn.first_byte_ms === null ? null : (
        <span class="faint">first byte {formatSpan(turn.first_byte_ms)}</span>
      )}
      {usage.output_tokens === null && usage.input_tokens === null ? null : (
        <span class="faint">
          {usage.estimated ? '~' : ''}
          {formatShort(tokensIn(usage))} → {formatShort(usage.output_tokens)} tokens
          {usage.estimated ? ', estimated' : ''}
        </span>
      )}
      {cached > 0 ? <span class="faint">{formatShort(cached)} cached</span> : null}
      {turn.cost_usd === null ? null : <TurnCost of={turn} />}
      {turn.model === null ? null : <span class="faint turn-model">{turn.model}</span>}
      {usage.tier === undefined ? null : (
        <span class="faint">{`${usage.tier} tier${has_no_price ? ', no price' : ''}`}</span>
      )}
      {turn.served_by === 'student' ? <Badge tone="student">student</Badge> : null}
      {turn.is_retry ? <Badge tone="warn">retry</Badge> : null}
      {turn.kind === 'other' ? <Badge>{`${turn.method} ${turn.path}`}</Badge> : null}
      {has_several && turn.conversation !== null ? <Badge>conversation {turn.conversation}</Badge> : null}
      {turn.aborted ? <Badge tone="warn">broken off</Badge> : null}
      {turn.truncated ? <Badge tone="warn">cut when stored</Badge> : null}
      {turn.failed ? (
        <Badge tone="bad">{turn.status === 0 ? 'no answer' : `failed, ${turn.status}`}</Badge>
      ) : null}
    </header>
  );
}

/** System prompt and tools, if they differ from the previous turn. */
function Setting({ turn: { system, tools }, context }: { turn: CapturedTurn; context: BlockContext }) {
  const characters = blocksOf(system ?? []).reduce(
    (sum, block) => sum + (block.type === 'text' ? block.text.length : 0),
    0,
  );
  return (
    <>
      {system === null || system.length === 0 ? null : (
        <details class="fold setting" open={characters < 400}>
          <summary>
            System <span class="faint">{formatNumber(characters)} characters</span>
          </summary>
          <Blocks content={system} context={context} />
        </details>
      )}
      {tools === null || tools.length === 0 ? null : (
        <details class="fold setting">
          <summary>
            {countOf(tools.length, 'tool')}{' '}
            <span class="faint">
              {tools
                .slice(0, 8)
                .map(({ name }) => name)
                .join(', ')}
              {tools.length > 8 ? ', …' : ''}
            </span>
          </summary>
          {tools.map((tool) => (
            <div key={tool.name} class="tool">
              <code>{tool.name}</code>
              <LongText text={String(tool.description ?? '')} lines={4} />
            </div>
          ))}
        </details>
      )}
    </>
  );
}

function Trouble({ turn }: { turn: CapturedTurn }) {
  const { failed, aborted, end_cause, end_words, error, problem, is_cut, undecodable, status } = turn;
  const isOurs = end_cause !== null && end_cause !== 'upstream_status';
  return (
    <>
      {failed || aborted ? (
        <p class="trouble">
          {isOurs
            ? `${end_words.charAt(0).toUpperCase()}${end_words.slice(1)}.`
            : (error ??
              (status === 0
                ? 'No answer came.'
                : status >= 400
                  ? `The upstream answered ${status}.`
                  : 'The answer broke off.'))}
        </p>
      ) : null}
      {undecodable || problem !== '' ? (
        <p class="trouble soft">Parts of this turn cannot be read: {problem || 'unreadable'}</p>
      ) : null}
      {is_cut ? (
        <p class="trouble soft">Too large to be shown here: the raw bodies below have the rest.</p>
      ) : null}
    </>
  );
}

/** The new parts of a message, without results that are shown with their calls; null if nothing remains. */
function withoutPlaced({ role, content }: Message, calls: ReadonlySet<string>): Message | null {
  const left = blocksOf(content).filter(
    (block) => block.type !== 'tool_result' || block.call_id === null || !calls.has(block.call_id),
  );
  return left.length === 0 ? null : { role, content: left };
}
