/**
 * A run on a time axis: a row for each turn, its tools and its sub-agents. The row of a sub-agent links to the
 * sub-agent's run. Every other row links to its turn. Browser.
 */
import { useMemo } from 'preact/hooks';
import { titleOfMonitor } from '../../domain/monitors/names.ts';
import { hrefHere } from '../core/address.ts';
import type { CapturedTurn } from '../core/captured.ts';
import { formatSpan } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { type ChildRun, layOutWaterfall, type TimeScale, type WaterfallRow } from '../core/waterfall.ts';

const TICKS = [0, 0.25, 0.5, 0.75, 1];

export function Waterfall({
  turns,
  children,
}: {
  turns: readonly CapturedTurn[];
  children: readonly ChildRun[];
}) {
  const laid = useMemo(() => layOutWaterfall(turns, children), [turns, children]);
  if (turns.length === 0) return null;
  const { rows, scale } = laid;
  return (
    <figure class="waterfall panel">
      <figcaption>
        <b>{formatSpan(laid.waiting_ms)}</b> waiting for answers
        {laid.tools_ms < 1 ? null : (
          <>
            , at most <b>{formatSpan(laid.tools_ms)}</b> in tools
          </>
        )}
        {laid.own_ms < 1 ? null : (
          <>
            , <b>{formatSpan(laid.own_ms)}</b> the agent’s own time
          </>
        )}
        {scale.cuts.length === 0 ? null : (
          <span class="faint">. Long pauses are drawn shortened, at the dashed lines</span>
        )}
      </figcaption>
      <div class="wf-axis faint" aria-hidden="true">
        <span class="wf-track">
          {TICKS.map((share) => (
            <span key={share} style={{ insetInlineStart: `${share * 100}%` }}>
              {share === 0 ? '0' : formatSpan(scale.timeAt(share) - scale.from_ms)}
            </span>
          ))}
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard */}
      <ol class="wf-rows" tabIndex={0} aria-label="Time line of the run">
        {rows.map((row) => (
          <li key={`${row.kind} ${row.exchange_id} ${row.run_id ?? row.from_ms}`} class={`wf-${row.kind}`}>
            <Row row={row} scale={scale} />
          </li>
        ))}
      </ol>
      <Legend rows={rows} />
    </figure>
  );
}

function Row({ row, scale }: { row: WaterfallRow; scale: TimeScale }) {
  const { kind, from_ms, to_ms, first_ms, idle_from_ms, is_failed, fired, run_id } = row;
  const href = run_id === null ? hrefHere({ turn: String(row.exchange_id) }) : hrefOfCaptured(run_id);
  const tone = is_failed ? ' bad' : row.is_student ? ' student' : '';
  return (
    <a href={href} title={describe(row)}>
      <span class="wf-label">
        {kind === 'turn' ? <span class="wf-number">{row.at + 1}</span> : null}
        <span class="wf-name">{row.label}</span>
        {is_failed ? <Mark sign="✗" words="failed" tone="alarm" /> : null}
        {fired.map((name) => (
          <Mark key={name} sign="⚑" words={titleOfMonitor(name)} tone="wf-fired" />
        ))}
      </span>
      <span class="wf-track">
        {scale.cuts.map(({ at, ms }) => (
          <i key={at} class="wf-cut" style={{ insetInlineStart: `${at * 100}%` }} title={formatSpan(ms)} />
        ))}
        {idle_from_ms === null ? null : <Bar kind="idle" from={idle_from_ms} to={from_ms} scale={scale} />}
        {kind === 'turn' && first_ms !== null ? (
          <>
            <Bar kind={`first${tone}`} from={from_ms} to={Math.min(first_ms, to_ms)} scale={scale} />
            <Bar kind={`rest${tone}`} from={Math.min(first_ms, to_ms)} to={to_ms} scale={scale} />
          </>
        ) : (
          <Bar kind={`${kind === 'turn' ? 'first' : kind}${tone}`} from={from_ms} to={to_ms} scale={scale} />
        )}
      </span>
      <span class="wf-span number">
        {kind === 'tools' ? '≤ ' : ''}
        {formatSpan(to_ms - from_ms)}
      </span>
    </a>
  );
}

function Mark({ sign, words, tone }: { sign: string; words: string; tone: string }) {
  return (
    <span class={tone} title={words}>
      <span aria-hidden="true">{sign}</span>
      <span class="offstage"> {words}</span>
    </span>
  );
}

function Bar({ kind, from, to, scale }: { kind: string; from: number; to: number; scale: TimeScale }) {
  const start = scale.at(from);
  const length = scale.at(to) - start;
  return (
    <i
      class={`wf-bar wf-bar-${kind}`}
      style={{ insetInlineStart: `${start * 100}%`, width: `${Math.max(0, length) * 100}%` }}
    />
  );
}

function Legend({ rows }: { rows: readonly WaterfallRow[] }) {
  const has = (test: (row: WaterfallRow) => boolean) => rows.some(test);
  const keys = [
    ['first', 'to the first byte', true],
    ['rest', 'the answer', true],
    ['tools', 'tools, and the agent during them', has(({ kind }) => kind === 'tools')],
    ['child', 'a sub-agent', has(({ kind }) => kind === 'child')],
    ['idle', 'the agent’s own time', has(({ idle_from_ms }) => idle_from_ms !== null)],
    ['first student', 'the student', has(({ is_student }) => is_student)],
    ['first bad', 'failed', has(({ is_failed }) => is_failed)],
  ] as const;
  return (
    <p class="legend">
      {keys.map(([kind, words, isShown]) =>
        isShown ? (
          <span key={kind}>
            <i class={`wf-bar-${kind}`} /> {words}
          </span>
        ) : null,
      )}
    </p>
  );
}

function describe(row: WaterfallRow): string {
  const span = formatSpan(row.to_ms - row.from_ms);
  if (row.kind === 'tools') return `${row.label}: at most ${span}${row.is_failed ? ', failed' : ''}`;
  if (row.kind === 'child') return `Sub-agent ${row.run_id}: ${span}`;
  const idle = row.idle_from_ms === null ? 0 : row.from_ms - row.idle_from_ms;
  const first = row.first_ms === null ? '' : `, first byte ${formatSpan(row.first_ms - row.from_ms)}`;
  return `Turn ${row.at + 1} ${row.label}: ${span}${first}${idle > 0 ? `, ${formatSpan(idle)} without a request before it` : ''}`;
}
