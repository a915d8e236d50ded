/** A conversation at a glance: for each turn how long it took, and how much went in and out. A click leads to the turn. Browser. */
import { type CapturedTurn, tokensIn } from '../core/captured.ts';
import { formatShort, formatSpan } from '../core/format.ts';

export function TurnStrip({ turns }: { turns: readonly CapturedTurn[] }) {
  if (turns.length < 2) return null;
  const longest = Math.max(1, ...turns.map(({ latency_ms }) => latency_ms));
  const most = Math.max(1, ...turns.map(({ usage }) => tokensIn(usage) ?? 0));
  const slowest = turns.findIndex(({ latency_ms }) => latency_ms === longest);
  return (
    <figure class="turn-strip panel">
      <div
        role="img"
        aria-label={`Latency of ${turns.length} turns; the slowest is turn ${slowest + 1} with ${formatSpan(longest)}`}
        class="strip-bars"
      >
        {turns.map((turn, at) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the turns themselves are reached by keys
          // biome-ignore lint/a11y/useKeyWithClickEvents: as above
          <span
            key={turn.exchange_id}
            class={`strip-turn ${toneOf(turn)}`}
            title={describe(turn, at)}
            onClick={() =>
              document.getElementById(`turn-${turn.exchange_id}`)?.scrollIntoView({ behavior: 'smooth' })
            }
          >
            <span class="strip-time">
              <i
                class="strip-rest"
                style={{ height: `${share(turn.latency_ms - (turn.first_byte_ms ?? 0), longest)}%` }}
              />
              <i class="strip-first" style={{ height: `${share(turn.first_byte_ms ?? 0, longest)}%` }} />
            </span>
            <i class="strip-tokens" style={{ height: `${((tokensIn(turn.usage) ?? 0) / most) * 100}%` }} />
          </span>
        ))}
      </div>
      <figcaption class="legend">
        <span>
          <i class="key-first" /> to the first byte
        </span>
        <span>
          <i class="key-rest" /> to the end, at most {formatSpan(longest)}
        </span>
        <span>
          <i class="key-tokens" /> tokens in, at most {formatShort(most)}
        </span>
      </figcaption>
    </figure>
  );
}

function share(ms: number, longest: number): number {
  return ms <= 0 ? 0 : Math.max(3, (ms / longest) * 100);
}

function toneOf({ failed, served_by }: CapturedTurn): string {
  if (failed) return 'bad';
  return served_by === 'student' ? 'student' : '';
}

function describe(turn: CapturedTurn, at: number): string {
  const { latency_ms, first_byte_ms, usage, failed } = turn;
  const tokens = `${formatShort(tokensIn(usage))} in, ${formatShort(usage.output_tokens)} out`;
  return `Turn ${at + 1}: ${formatSpan(latency_ms)}, first byte ${formatSpan(first_byte_ms)}, ${tokens}${failed ? ', failed' : ''}`;
}
